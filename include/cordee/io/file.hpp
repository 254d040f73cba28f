// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whole files, in and out. What is written replaces the old file at once or not at all.
//
// The new bytes go to a file beside it, are flushed to the disk, and only then take its name, so
// that a full disk or a kill leaves the old file as it was.
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

namespace cordee::inline CORDEE_ABI {

namespace detail {

inline std::string reason(int code) { return std::generic_category().message(code); }

/// A file descriptor that closes itself.
class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() { close(); }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  /// 0, or errno: some file systems report a failed write only here.
  int close() {
    if (number_ < 0) return 0;
    const int failed = ::close(number_);
    number_ = -1;
    return failed == 0 ? 0 : errno;
  }

 private:
  int number_;
};

/// Writes all of it; 0, or errno.
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

// The name itself lasts only when the folder is on the disk too. Best effort: not every file system
// lets a folder be flushed, and the contents are safe either way.
inline void flush_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  const descriptor file(::open(folder.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.is_open()) ::fsync(file.number());
}

}  // namespace detail

/// Whether there is something of that name to read.
inline bool readable(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

/// All bytes of a file.
inline std::vector<std::uint8_t> read_file(const std::string& path) {
  const detail::descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open())
    throw error(text("cannot read ", path, ": ", detail::reason(errno), "; check the path"));
  struct ::stat about {};
  std::vector<std::uint8_t> bytes;
  if (::fstat(file.number(), &about) == 0 && about.st_size > 0)
    bytes.resize(static_cast<std::size_t>(about.st_size));
  std::size_t have = 0;
  for (;;) {  // the size may be unknown (a pipe) or change: the end is where read says so
    if (have == bytes.size()) bytes.resize(have + (have == 0 ? 65536 : 1));
    const ssize_t n = ::read(file.number(), bytes.data() + have, bytes.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw error(text("cannot read ", path, " at offset ", have, ": ", detail::reason(errno)));
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

/// Puts the pieces, one after another, in the place of `path`. On failure the old file is as it was
/// and nothing is left behind.
inline void write_file(const std::string& path,
                       std::span<const std::span<const std::byte>> pieces) {
  static std::atomic<unsigned> count{0};
  const auto refuse = [&](int code) {
    throw error(text("cannot write ", path, ": ", detail::reason(code),
                     "; what was there is untouched. Free some space or name another place"));
  };
  struct ::stat about {};
  if (::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode))
    throw error(
        text("cannot write ", path,
             ": it is not a regular file, and a new one cannot take its place; name a file"));

  const std::string beside = text(path, ".", ::getpid(), ".", count++, ".partial");
  detail::descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.is_open()) refuse(errno);
  int failed = 0;
  for (const auto& piece : pieces)
    if (failed == 0) failed = detail::write_all(file.number(), piece);
  if (failed == 0 && ::fsync(file.number()) != 0) failed = errno;
  if (const int at_close = file.close(); failed == 0) failed = at_close;
  if (failed == 0 && std::rename(beside.c_str(), path.c_str()) != 0) failed = errno;
  if (failed != 0) {
    ::unlink(beside.c_str());
    refuse(failed);
  }
  detail::flush_folder_of(path);
}

}  // namespace cordee::inline CORDEE_ABI
