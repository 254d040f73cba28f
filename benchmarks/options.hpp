// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integer options of a benchmark's command line, and a clock.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

namespace bench {

struct option {
  std::string_view name;
  int* value;
};

/// Reads "--name N" with N > 0. `--help` prints the usage and exits with 0, any other argument with
/// 2.
inline void read_options(int argc, char** argv, const char* usage,
                         std::initializer_list<option> known) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    bool read = false;
    for (const option& o : known)
      if (o.name == name && i + 1 < argc) read = (*o.value = std::atoi(argv[i + 1])) > 0;
    if (read) {
      ++i;
      continue;
    }
    const bool help = name == "--help";
    std::fputs(usage, help ? stdout : stderr);
    std::exit(help ? 0 : 2);
  }
}

/// Seconds of a monotonic clock.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace bench
