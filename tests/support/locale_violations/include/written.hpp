// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What cmake/locale.cmake refuses; never compiled.
#pragma once

#include <cstdio>
#include <cstdlib>

inline void written(double x) {
  std::printf(
      "%d %% of %s, "
      "%8.3f\n",
      1, "it", x);
}
inline double read(const char* text) { return std::strtod(text, nullptr); }
