// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that a function takes beyond what the process has when it begins.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace support {

/// A line of /proc/self/status, in bytes.
inline std::optional<std::int64_t> status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::int64_t kilobytes = 0; word == name + ":" && status >> kilobytes)
      return 1024 * kilobytes;
  return {};
}

inline void return_free_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);  // else what was freed before could be used again, unnoticed
#endif
}

/// The largest resident memory while f runs less the one before, in bytes; nothing where Linux
/// does not reset the peak.
template <class F>
std::optional<std::int64_t> peak_memory_of(const F& f) {
  return_free_memory();
  std::ofstream reset("/proc/self/clear_refs");
  reset << 5 << std::flush;  // the peak becomes the present size
  const auto before = status_bytes("VmRSS"), peak_before = status_bytes("VmHWM");
  f();
  const auto peak = status_bytes("VmHWM");
  if (!reset || !before || !peak_before || !peak) return {};
  if (*peak_before > *before + (1 << 20)) return {};  // it was not reset
  return *peak - *before;
}

}  // namespace support
