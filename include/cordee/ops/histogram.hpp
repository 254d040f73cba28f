// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How numbers are spread, in bins that do not depend on them: threads, batches and ranks add whole
// counts, exactly, in any order.
//
//   bin(x) = (sign, exponent, three bits of the fraction) of x, for 2^-20 <= |x| < 2^12
//   low, high: beyond each lie (1 - p / 100) of the numbers, as if each bin were evenly filled
//
// What is nearer to zero is of the innermost bins, what is farther of the outermost, which end
// where the numbers do.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/quantise_lanes.hpp>

namespace cordee::inline CORDEE_ABI {

/// The bins, from the most negative to the most positive.
struct number_bins {
  static constexpr int half = 256, count = 2 * half;

  static constexpr int of(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7fffffffu;
    const std::uint32_t within = std::clamp(magnitude, first, first + (half << 20) - 1);
    const auto away = static_cast<int>((within - first) >> 20);
    return bits == magnitude ? half + away : half - 1 - away;
  }
  /// Where bin b begins, and bin b - 1 ends.
  static constexpr float edge(int b) {
    const int away = b < half ? half - b : b - half;
    if (away == 0) return 0;
    const auto size = std::bit_cast<float>(first + (static_cast<std::uint32_t>(away) << 20));
    return b < half ? -size : size;
  }

 private:
  static constexpr std::uint32_t first = std::bit_cast<std::uint32_t>(0x1p-20f);
};

/// Adds how many of n numbers are of each bin, but for so many zeros that only fill up blocks.
[[gnu::cold, gnu::noinline]] inline void count_numbers(std::size_t n, const float* x,
                                                       std::span<double> counts, cpu::stream s,
                                                       std::size_t filling = 0) {
  counts[number_bins::half] -= static_cast<double>(filling);
  std::mutex mutex;
  parallel(s, n, 4096, [&](std::size_t first, std::size_t last) {
    std::array<std::array<std::uint32_t, number_bins::count>, 2> mine{};  // equal neighbours wait
    for (std::size_t i = first; i < last; ++i)
      ++mine[i % 2][static_cast<std::size_t>(number_bins::of(x[i]))];
    const std::lock_guard lock(mutex);
    for (std::size_t b = 0; b < counts.size(); ++b)
      counts[b] += static_cast<double>(mine[0][b]) + static_cast<double>(mine[1][b]);
  });
}

/// The middle of numbers that span `all`, without (1 - percent / 100) of them at either end.
[[gnu::cold, gnu::noinline]] inline real_range middle_of(std::span<const double> counts,
                                                         const real_range& all, double percent) {
  double total = 0;
  for (const double c : counts) total += c;
  if (total == 0 || !all.seen()) return all;
  const double cut = total * (1 - percent / 100);
  const auto end = [&](bool upper) {
    double passed = 0;
    for (int k = 0;; ++k) {
      const int b = upper ? number_bins::count - 1 - k : k;
      const double here = counts[static_cast<std::size_t>(b)];
      if (passed + here <= cut && k + 1 < number_bins::count) {
        passed += here;
        continue;
      }
      const float begin = b == 0 ? all.low : number_bins::edge(b),
                  past = b + 1 == number_bins::count ? all.high : number_bins::edge(b + 1);
      const double low = std::clamp(begin, all.low, all.high),
                   high = std::clamp(past, all.low, all.high),
                   share = here > 0 ? (cut - passed) / here : 0;
      return static_cast<float>(upper ? high - share * (high - low) : low + share * (high - low));
    }
  };
  return {end(false), end(true)};
}

}  // namespace cordee::inline CORDEE_ABI
