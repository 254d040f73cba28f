// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the all-reduce benchmarks share, so that they measure alike.
#pragma once

#include <cstddef>
#include <cstdio>

namespace benchmark {

/// Short messages are measured many at once: a clock and a barrier cost as much as one.
constexpr int calls_in_a_row(std::size_t bytes) {
  return bytes <= 64'000 ? 100 : bytes <= 1'000'000 ? 10 : 1;
}

/// "native ranks 4 bytes 1000 us 3.21 GB/s 0.47" and what else there is to say
inline void print(const char* method, int ranks, std::size_t bytes, double microseconds,
                  const char* more = "") {
  std::printf("%-16s ranks %d bytes %9zu us %10.2f GB/s %6.2f%s\n", method, ranks, bytes,
              microseconds,
              static_cast<double>(bytes) / microseconds / 1e3 * 2 * (ranks - 1) / ranks, more);
  std::fflush(stdout);
}

}  // namespace benchmark
