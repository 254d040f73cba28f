// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm between two quantised layers in integer arithmetic (after Lin et al., 2020), one
// channel of infer/quantize/fit_batch_norm.hpp's layer.
//
//   T(x) = floor(k x + b + 1/2) = (K x + B) >> L    for every integer x of a range, exactly
//
// L is the smallest shift for which K = floor(k 2^L) or ceil(k 2^L) leaves a B: with
//   low = max over x of T(x) 2^L - K x,  high = min over x of (T(x) + 1) 2^L - 1 - K x,
// any B in low .. high; both extremes are at vertices of the convex hull of the points (x, T(x)). A
// function that is exact at L is exact at L + d, with K 2^d and B in low 2^d .. high 2^d + 2^d - 1;
// so the channels of a layer can share the largest of their shifts.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <cordee/core/config.hpp>
#include <cordee/ops/integer_hull.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The exact sign of a sum, by an expansion of non-overlapping partial sums (Shewchuk, 1997).
inline int sign_of_sum(const std::array<double, 4>& terms) {
  std::array<double, 4> expansion{};
  std::size_t n = 0;
  for (double sum : terms) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double a = sum, b = expansion[i];
      sum = a + b;
      const double b_part = sum - a, error = (a - (sum - b_part)) + (b - b_part);
      if (error != 0) expansion[size++] = error;
    }
    if (sum != 0) expansion[size++] = sum;
    n = size;
  }
  const double largest = n == 0 ? 0 : expansion[n - 1];
  return largest > 0 ? 1 : largest < 0 ? -1 : 0;
}

/// floor(k x + b + 1/2) in exact arithmetic. Requires |result| < 2^51.
inline std::int64_t exact_affine(double k, double b, int x) {
  const double product = k * x, sum = product + b + 0.5;
  double result = std::floor(sum);
  // Three roundings of numbers below 2^30 add less than 2^-20: they matter only near an integer.
  const double fraction = sum - result;
  if (std::abs(product) < 0x1p30 && std::abs(sum) < 0x1p30 && fraction > 0x1p-20 &&
      fraction < 1 - 0x1p-20)
    return static_cast<std::int64_t>(result);
  const double error = std::fma(k, x, -product);
  while (sign_of_sum({product, error, b, 0.5 - result}) < 0) --result;
  while (sign_of_sum({product, error, b, -0.5 - result}) >= 0) ++result;
  return static_cast<std::int64_t>(result);
}

/// x -> (K x + B) >> L, with any B in low .. high.
struct integer_affine {
  std::int64_t multiplier = 0, low = 0, high = 0;  // K, and the bounds of B
  int shift = 0;                                   // L

  CORDEE_HOST_DEVICE constexpr std::int64_t operator()(int x) const {
    return (multiplier * x + low) >> shift;
  }
  /// The same function with a larger shift.
  [[nodiscard]] constexpr integer_affine with_shift(int larger) const {
    const std::int64_t factor = std::int64_t{1} << (larger - shift);
    return {multiplier * factor, low * factor, high * factor + factor - 1, larger};
  }
  friend constexpr bool operator==(const integer_affine&, const integer_affine&) = default;
};

/// The number of low .. high that ends in the most zero bits. Requires low <= high.
constexpr std::int64_t with_most_zeros(std::int64_t low, std::int64_t high) {
  if (low <= 0 && high >= 0) return 0;
  if (high < 0) return -with_most_zeros(-high, -low);
  // Multiples of 2^n for a larger n lie outside: low - 1 and high agree in their quotients by it.
  const int n = static_cast<int>(std::bit_width(static_cast<std::uint64_t>((low - 1) ^ high))) - 1;
  return high >> n << n;
}

/// The integer form of `function`(x), the floor of a line of about the slope k. Empty where no
/// shift up to `most` is exact.
template <std::invocable<int> Function>
std::optional<integer_affine> fit_integer_affine(double k, const Function& function,
                                                 integer_range in, int most = 30) {
  const std::vector<integer_point> upper = upper_hull(function, in),
                                   lower = lower_hull(function, in);
  for (int shift = 0; shift <= most; ++shift) {
    const double scaled = std::ldexp(k, shift);
    const std::int64_t unit = std::int64_t{1} << shift;
    for (const double multiplier : {std::floor(scaled), std::ceil(scaled)}) {
      integer_affine candidate{static_cast<std::int64_t>(multiplier),
                               std::numeric_limits<std::int64_t>::min(),
                               std::numeric_limits<std::int64_t>::max(), shift};
      for (const auto& [x, y] : upper)
        candidate.low = std::max(candidate.low, y * unit - candidate.multiplier * x);
      for (const auto& [x, y] : lower)
        candidate.high = std::min(candidate.high, (y + 1) * unit - 1 - candidate.multiplier * x);
      if (candidate.low <= candidate.high) return candidate;
    }
  }
  return std::nullopt;
}

/// The same of k x + b, with k and b as exact reals, halves rounded up. Empty also where k or b is
/// not finite.
inline std::optional<integer_affine> fit_integer_affine(double k, double b, integer_range in,
                                                        int most = 30) {
  const double bound = std::abs(k) * std::max(std::abs(in.low), std::abs(in.high)) + std::abs(b);
  if (!(bound < 0x1p30)) return std::nullopt;
  return fit_integer_affine(
      k, [=](int x) { return exact_affine(k, b, x); }, in, most);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
