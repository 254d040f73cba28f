// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The range with the least relative entropy (Kullback-Leibler divergence), as TensorRT defines it
// (Migacz, GTC 2017) and NVIDIA's modelopt computes it.
//
//   h: counts of |x| in 2048 bins of equal width, h_0 <- h_1     for i = 128 .. 2048:
//   P = h_0 .. h_{i-1} + (sum of h_i ..),  Q = h_0 .. h_{i-1}, of which those that are not zero
//       become their mean in each of L equal levels
//   the bound is the end of bin i - 1 for the last i of the least sum of P log(P / Q), normalized
//
// L is 128, or 256 if no number is negative. (onnxruntime's calibrator of this name differs: its
// signed bins leave a remainder after the last level, and it divides counts as integers.) Counts
// are those of ops/histogram.hpp's bins, uniform inside each.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/math.hpp>
#include <cordee/ops/histogram.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// The sum of P log(P / Q) for the first i bins. Infinite where the last one is empty and numbers
/// lie beyond.
[[gnu::cold]] inline double relative_entropy(std::span<const double> h, double total, std::size_t i,
                                             std::size_t levels) {
  double inside = 0, sum = 0;
  for (std::size_t k = 0; k < i; ++k) inside += h[k];
  for (std::size_t first = 0, last = 0; first < i; first = last) {
    const std::size_t level = first * levels / i;
    double counted = 0, bins = 0;
    for (last = first; last < i && last * levels / i == level; ++last) {
      counted += h[last];
      bins += h[last] != 0 ? 1 : 0;
    }
    for (std::size_t k = first; k < last; ++k) {
      const double p = (h[k] + (k + 1 == i ? total - inside : 0)) / total;
      const double q = h[k] != 0 ? counted / bins / inside : 0;
      if (p > 0)
        sum += q > 0 ? p * detail::core::log(p / q) : std::numeric_limits<double>::infinity();
    }
  }
  return sum;
}

/// The number of bins of equal width before the bound, at least `first`: all of them for h of no
/// numbers.
[[gnu::cold]] inline std::size_t entropy_bins(std::span<double> h, std::size_t levels,
                                              std::size_t first = 128) {
  h[0] = h[1];
  double total = 0, least = std::numeric_limits<double>::infinity();
  for (const double count : h) total += count;
  std::size_t best = h.size();
  for (std::size_t i = h.size(); total > 0 && i >= first; --i)
    if (const double e = relative_entropy(h, total, i, levels); e < least) {
      least = e;
      best = i;
    }
  return best;
}

}  // namespace detail::ops

/// Chooses the range with the least relative entropy.
struct entropy_range {
  /// The range for the counts (histogram_bins::count) of numbers with these extremes, which are
  /// returned unchanged if there are no numbers or they are not finite.
  [[nodiscard, gnu::cold]] detail::ops::real_range choose(
      std::span<const double> counts, const detail::ops::real_range& extremes) const {
    using namespace detail::ops;
    if (!detail::core::isfinite(extremes.low) || !detail::core::isfinite(extremes.high))
      return extremes;
    constexpr std::size_t bins = 2048;
    const double largest = std::max(-1.0 * extremes.low, 1.0 * extremes.high);
    const double width = largest / bins;
    std::vector<double> h(bins);  // of |x|
    for (int b = 0; b < histogram_bins::count && width > 0; ++b) {
      const double count = counts[static_cast<std::size_t>(b)];
      if (count == 0) continue;
      const auto [low, high] = bin_bounds(b, extremes);
      const double u = std::min(detail::core::abs(low), detail::core::abs(high)),
                   v = std::max(detail::core::abs(low), detail::core::abs(high));
      const auto bin_of = [&](double x) {
        return std::min(bins - 1, static_cast<std::size_t>(x / width));
      };
      const std::size_t first = bin_of(u), last = bin_of(v);
      for (std::size_t k = first; k <= last; ++k) {
        const double from = std::max(u, static_cast<double>(k) * width),
                     to = std::min(v, static_cast<double>(k + 1) * width);
        h[k] += first == last ? count : count * std::max(0.0, to - from) / (v - u);
      }
    }
    const std::size_t kept = entropy_bins(h, extremes.low < 0 ? 128 : 256);
    if (kept == bins) return extremes;
    const auto bound = static_cast<float>(static_cast<double>(kept) * width);
    return {std::max(extremes.low, -bound), std::min(extremes.high, bound)};
  }
};

}  // namespace cordee::inline CORDEE_ABI
