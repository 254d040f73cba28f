// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What every benchmark starts with: whole numbers from the command line, and a clock.
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

/// Reads "--name N" with N > 0; `--help` prints the usage, anything else too, with an exit status.
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
    const bool asked = name == "--help";
    std::fputs(usage, asked ? stdout : stderr);
    std::exit(asked ? 0 : 2);
  }
}

/// Seconds of a clock that never goes back.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace bench
