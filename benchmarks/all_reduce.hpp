// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Shared by the allreduce benchmarks, so that they measure in the same way.
#pragma once

#include <cstddef>
#include <cstdio>

namespace benchmark {

/// Short messages are timed many at a time: a clock and a barrier cost as much as one.
constexpr int calls_per_timing(std::size_t bytes) {
  return bytes <= 64'000 ? 100 : bytes <= 1'000'000 ? 10 : 1;
}

/// Prints "native ranks 4 bytes 1000 us 3.21 GB/s 0.47" and `more`.
inline void print(const char* method, int ranks, std::size_t bytes, double microseconds,
                  const char* more = "") {
  std::printf("%-16s ranks %d bytes %9zu us %10.2f GB/s %6.2f%s\n", method, ranks, bytes,
              microseconds,
              static_cast<double>(bytes) / microseconds / 1e3 * 2 * (ranks - 1) / ranks, more);
  std::fflush(stdout);
}

}  // namespace benchmark
