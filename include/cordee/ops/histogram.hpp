// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Histograms with bins that do not depend on the data: threads, batches and ranks add integer
// counts, exactly, in any order.
//
//   bin(x) = (sign, exponent, three bits of the fraction) of x, for 2^-20 <= |x| < 2^12
//   low, high: the (1 - p / 100) and p / 100 quantiles, linear inside a bin
//
// Numbers nearer to zero are counted in the two innermost bins, numbers farther away in the
// outermost, which end at the smallest and the largest number.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/config.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The bins, from the most negative to the most positive.
struct histogram_bins {
  /// `zero`: the bin of +0, the first of the non-negative ones.
  static constexpr int zero = 256, count = 2 * zero;

  static constexpr int index(float x) {
    // By value: std::clamp binds references, and a static member has no address on a GPU.
    const std::uint32_t smallest = first, largest = first + (zero << 20) - 1;
    const auto bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7fffffffu;
    const auto distance =
        static_cast<int>((std::clamp(magnitude, smallest, largest) - smallest) >> 20);
    return bits == magnitude ? zero + distance : zero - 1 - distance;
  }
  /// Where bin b begins, and bin b - 1 ends.
  static constexpr float lower_edge(int b) {
    const int distance = b < zero ? zero - b : b - zero;
    if (distance == 0) return 0;
    const auto size = std::bit_cast<float>(first + (static_cast<std::uint32_t>(distance) << 20));
    return b < zero ? -size : size;
  }

 private:
  static constexpr std::uint32_t first = std::bit_cast<std::uint32_t>(0x1p-20f);
};

/// Where the numbers of bin b lie, for numbers between these extremes.
constexpr std::pair<double, double> bin_bounds(int b, const real_range& extremes) {
  const float begin = b == 0 ? extremes.low : histogram_bins::lower_edge(b),
              end = b + 1 == histogram_bins::count ? extremes.high
                                                   : histogram_bins::lower_edge(b + 1);
  return {std::clamp(begin, extremes.low, extremes.high),
          std::clamp(end, extremes.low, extremes.high)};
}

/// The range without (1 - percent / 100) of the numbers at either end. `extremes` are the smallest
/// and the largest of the numbers counted; returned as they are where there are none.
[[gnu::cold, gnu::noinline]] inline real_range percentile_range(std::span<const double> counts,
                                                                const real_range& extremes,
                                                                double percent) {
  double total = 0;
  for (const double c : counts) total += c;
  if (total == 0 || !extremes.has_values()) return extremes;
  const double cut = total * (1 - percent / 100);
  const auto end = [&](bool upper) {
    double passed = 0;
    for (int k = 0;; ++k) {
      const int b = upper ? histogram_bins::count - 1 - k : k;
      const double count = counts[static_cast<std::size_t>(b)];
      if (passed + count <= cut && k + 1 < histogram_bins::count) {
        passed += count;
        continue;
      }
      const auto [low, high] = bin_bounds(b, extremes);
      const double share = count > 0 ? (cut - passed) / count : 0;
      return static_cast<float>(upper ? high - share * (high - low) : low + share * (high - low));
    }
  };
  return {end(false), end(true)};
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
