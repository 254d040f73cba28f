// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reads whole files, and writes them atomically.
//
// The new bytes go to a temporary file in the same folder, are flushed to the disk, and are then
// renamed, so that a full disk or a killed process leaves the old file unchanged.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

inline std::string error_message(int code) { return std::generic_category().message(code); }

/// An owned file descriptor.
class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() { close(); }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  /// Returns 0 or errno: some file systems report a failed write only here.
  int close() {
    if (number_ < 0) return 0;
    const int failed = ::close(number_);
    number_ = -1;
    return failed == 0 ? 0 : errno;
  }

 private:
  int number_;
};

/// Returns 0 when all bytes are written, else errno.
inline int write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

// The new name is durable only when the folder is on the disk too. Best effort: not every file
// system can flush a folder, and the contents are safe either way.
inline void flush_parent_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  const descriptor file(::open(folder.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.is_open()) ::fsync(file.number());
}

/// Whether the file exists and may be read.
inline bool is_readable(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

/// All bytes of a file. Throws error.
inline std::vector<std::uint8_t> read_file(const std::string& path) {
  const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open())
    throw error(concat("cannot read ", path, ": ", error_message(errno), "; check the path"));
  struct ::stat status {};
  std::vector<std::uint8_t> bytes;
  if (::fstat(file.number(), &status) == 0 && status.st_size > 0)
    bytes.resize(static_cast<std::size_t>(status.st_size));
  std::size_t size = 0;
  for (;;) {  // the size may be unknown (a pipe) or change: read until it returns 0
    if (size == bytes.size()) bytes.resize(size + (size == 0 ? 65536 : 1));
    const ssize_t n = ::read(file.number(), bytes.data() + size, bytes.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw error(concat("cannot read ", path, " at offset ", size, ": ", error_message(errno)));
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  bytes.resize(size);
  return bytes;
}

/// Replaces `path` by the concatenation of the pieces. Throws error; then the old file is unchanged
/// and no temporary file remains.
inline void write_file(const std::string& path,
                       std::span<const std::span<const std::byte>> pieces) {
  static std::atomic<unsigned> count{0};
  const auto refuse = [&](int code) {
    throw error(concat("cannot write ", path, ": ", error_message(code),
                       "; the old file is unchanged. Free some space or choose another path"));
  };
  struct ::stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw error(concat("cannot write ", path,
                       ": it is not a regular file and cannot be replaced; choose another path"));

  const std::string temporary = concat(path, ".", ::getpid(), ".", count++, ".partial");
  descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.is_open()) refuse(errno);
  int failed = 0;
  for (const auto& piece : pieces)
    if (failed == 0) failed = write_all(file.number(), piece);
  if (failed == 0 && ::fsync(file.number()) != 0) failed = errno;
  if (const int at_close = file.close(); failed == 0) failed = at_close;
  if (failed == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) failed = errno;
  if (failed != 0) {
    ::unlink(temporary.c_str());
    refuse(failed);
  }
  flush_parent_folder(path);
}

}  // namespace cordee::inline CORDEE_ABI::detail::io
