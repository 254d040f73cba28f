// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A file in memory, since readers take paths, and the end of a fuzz run whose law is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace fuzz {

/// Ends the run unless the law holds.
inline void require(bool holds, const char* law) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", law);
  std::abort();
}

class memory_file {
 public:
  memory_file() : number_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(number_ >= 0, "a file in memory can be made");
  }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file() { ::close(number_); }

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(number_); }
  void set(std::span<const std::uint8_t> bytes) const {
    require(::ftruncate(number_, 0) == 0 && ::pwrite(number_, bytes.data(), bytes.size(), 0) ==
                                                static_cast<ssize_t>(bytes.size()),
            "a file in memory can be written");
  }

 private:
  int number_;
};

}  // namespace fuzz
