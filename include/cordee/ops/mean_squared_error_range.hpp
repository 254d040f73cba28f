// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The range whose byte quantizer has the least mean squared error on a histogram's numbers, with
// each bin uniform inside.
//
//   E(a, b) = sum over bins [u, v) of c / (v - u) (G(v) - G(u))
//   G(x) = k s^3 / 12 + r^3 / 3,   k = clip(round(x / s), -z, 255 - z),  r = x - k s
//
// G is the integral of the square of x - x' (ops/quantize.hpp): s^2 / 12 on average inside the
// range, the square of the distance outside. Bounds are edges of bins or extremes, searched one at
// a time from the extremes until neither changes. (torch.ao's HistogramObserver moves quantiles of
// equal bins instead.)
#pragma once

#include <cstddef>
#include <span>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/math.hpp>
#include <cordee/ops/histogram.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// The sum of the square errors of the numbers of a histogram behind the byte quantizer of a range.
[[gnu::cold]] inline double squared_error_of(std::span<const double> counts,
                                             const real_range& extremes, const real_range& range) {
  const affine_quantizer<float> q = fit_affine(range.low, range.high, unsigned_bytes);
  const double s = static_cast<double>(q.scale);
  const auto error = [&](double x) {
    return x - s * std::clamp(detail::core::nearbyint(x / s), -1.0 * q.zero_point,
                              255.0 - q.zero_point);
  };
  const auto integral = [&](double x) {
    const double r = error(x);
    return (x - r) * s * s / 12 + r * r * r / 3;
  };
  double sum = 0;
  for (int b = 0; b < histogram_bins::count; ++b) {
    const double count = counts[static_cast<std::size_t>(b)];
    if (count == 0) continue;
    const auto [u, v] = bin_bounds(b, extremes);
    sum += count * (u < v ? (integral(v) - integral(u)) / (v - u) : error(u) * error(u));
  }
  return sum;
}

}  // namespace detail::ops

/// Chooses the range with the least mean squared error.
struct mean_squared_error_range {
  /// The range for the counts (histogram_bins::count) of numbers with these extremes, which are
  /// returned unchanged if there are no numbers or they are not finite.
  [[nodiscard, gnu::cold]] detail::ops::real_range choose(
      std::span<const double> counts, const detail::ops::real_range& extremes) const {
    using namespace detail::ops;
    real_range best = extremes;
    if (!detail::core::isfinite(extremes.low) || !detail::core::isfinite(extremes.high))
      return best;
    double least = squared_error_of(counts, extremes, best);
    // Tries the edges of bins between zero and the extreme for one bound; true if one is better.
    const auto improve = [&](float real_range::*bound) {
      const float before = best.*bound, extreme = extremes.*bound;
      const auto attempt = [&](float x) {
        real_range range = best;
        range.*bound = x;
        if (const double e = squared_error_of(counts, extremes, range); e < least) {
          least = e;
          best = range;
        }
      };
      attempt(extreme);
      for (int b = 1; b < histogram_bins::count; ++b)
        if (const float x = histogram_bins::lower_edge(b);
            extreme > 0 ? 0 < x && x < extreme : extreme < x && x < 0)
          attempt(x);
      return best.*bound != before;
    };
    for (bool is_better = true; is_better;) {
      is_better = improve(&real_range::high);
      is_better |= improve(&real_range::low);
    }
    return best;
  }
};

}  // namespace cordee::inline CORDEE_ABI
