// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How often this process has read, from files and otherwise,
// and how many bytes, as the system counts.
#pragma once

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>

namespace support {

struct read_calls {
  std::int64_t calls = 0, bytes = 0;

  friend read_calls operator-(read_calls a, read_calls b) {
    return {a.calls - b.calls, a.bytes - b.bytes};
  }
};

/// Requires /proc. To ask reads, too: a call or two, of less than 500 bytes.
inline read_calls count_reads() {
  std::ifstream file("/proc/self/io");
  read_calls counts;
  bool has_calls = false, has_bytes = false;
  std::string name;
  for (std::int64_t value = 0; file >> name >> value;) {
    if (name == "syscr:") has_calls = true, counts.calls = value;
    if (name == "rchar:") has_bytes = true, counts.bytes = value;
  }
  if (!has_calls || !has_bytes) throw std::runtime_error("/proc/self/io does not count reads");
  return counts;
}

}  // namespace support
