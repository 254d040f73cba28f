// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reads regular files. Pipes, devices and folders are refused when they are opened: they have no
// size, so a read could block, or never end. Every file that another program may have put there is
// opened by input_file.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <source_location>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/io/host_memory.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

inline std::string error_message(int code) { return std::generic_category().message(code); }

/// A file that could not be read, whatever its bytes are.
class read_error : public error {
 public:
  // Not inherited: nvcc 13.0 aborts at the default argument of error's constructor.
  explicit read_error(const std::string& message,
                      std::source_location location = std::source_location::current())
      : error(message, location) {}
};

/// An owned file descriptor.
class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
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

/// Whether the file exists and may be read.
inline bool is_readable(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

/// bytes.resize(size) for bytes of the file `path`. Throws read_error if they do not fit the
/// memory.
inline void resize_for(std::vector<std::uint8_t>& bytes, std::uint64_t size,
                       const std::string& path) {
  const auto refuse = [&](std::uint64_t memory) {
    throw read_error(concat("cannot read ", path, ": its ", size,
                            " bytes do not fit the memory of ", memory,
                            " bytes; check that it is the right file"));
  };
  const std::uint64_t memory = memory_bytes();
  if (size > memory) refuse(memory);
  try {
    bytes.resize(static_cast<std::size_t>(size));
  } catch (const std::bad_alloc&) {  // less is left, or permitted to this process
    refuse(memory);
  }
}

/// A regular file opened for reading. Throws read_error where it cannot be read. Bytes that are
/// appended later are not seen.
class input_file {
 public:
  /// Throws unless `path` is a regular file that may be read. Does not block.
  explicit input_file(std::string path)
      : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    struct ::stat status {};
    if (!file_.is_open() || ::fstat(file_.number(), &status) != 0)
      throw read_error(
          concat("cannot read ", path_, ": ", error_message(errno), "; check the path"));
    if (!S_ISREG(status.st_mode))
      throw read_error(concat("cannot read ", path_, ": it is ",
                              S_ISDIR(status.st_mode) ? "a folder" : "a pipe or a device",
                              ", not a regular file; name a file, or copy the data into one"));
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int descriptor_number() const { return file_.number(); }
  /// When it was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Fills `out` with the bytes at `offset`. Throws if there are fewer.
  void read_at(std::uint64_t offset, std::span<std::uint8_t> out) const {
    while (!out.empty()) {
      constexpr std::size_t most = std::size_t{1} << 30;  // of one call
      const ssize_t n = ::pread(file_.number(), out.data(), std::min(out.size(), most),
                                static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0)
        throw read_error(concat("cannot read ", path_, " at offset ", offset, ": ",
                                n < 0 ? error_message(errno)
                                      : concat("it ends there, and had ", size_,
                                               " bytes when it was opened; read it when no other "
                                               "program writes it")));
      offset += static_cast<std::uint64_t>(n);
      out = out.subspan(static_cast<std::size_t>(n));
    }
  }

 private:
  std::string path_;
  descriptor file_;
  std::uint64_t size_ = 0;
};

/// All bytes of a regular file. Throws read_error, also for a file larger than the machine's
/// memory.
inline std::vector<std::uint8_t> read_file(const std::string& path) {
  const input_file file(path);
  std::vector<std::uint8_t> bytes;
  resize_for(bytes, file.size(), path);
  file.read_at(0, bytes);
  return bytes;
}
/// The same as text.
inline std::string read_text(const std::string& path) {
  const std::vector<std::uint8_t> bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

}  // namespace cordee::inline CORDEE_ABI::detail::io
