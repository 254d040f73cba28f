// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm between two quantised layers, in integers (after Lin et al., 2020).
//
//   T(x) = floor(k x + b + 1/2) = (K x + B) >> L    for every integer x of a range, exactly
//
// L is the smallest for which K = floor(k 2^L) or ceil(k 2^L) leaves a B: with
//   low = max over x of T(x) 2^L - K x,  high = min over x of (T(x) + 1) 2^L - 1 - K x,
// any B of low .. high. What is exact at L is exact at L + d, with K 2^d and low 2^d ..
// high 2^d + 2^d - 1: so the channels of a layer share the largest of their shifts.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>

#include <cordee/core/config.hpp>
#include <cordee/ops/quantise.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// The sign of a sum, exactly: its partial sums as numbers that do not overlap (Shewchuk, 1997).
inline int sign_of_sum(const std::array<double, 4>& terms) {
  std::array<double, 4> parts{};
  std::size_t n = 0;
  for (double sum : terms) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double a = sum, b = parts[i];
      sum = a + b;
      const double of_b = sum - a, lost = (a - (sum - of_b)) + (b - of_b);
      if (lost != 0) parts[kept++] = lost;
    }
    if (sum != 0) parts[kept++] = sum;
    n = kept;
  }
  const double largest = n == 0 ? 0 : parts[n - 1];
  return largest > 0 ? 1 : largest < 0 ? -1 : 0;
}

/// floor(k x + b + 1/2) of the real numbers, |result| < 2^51.
inline std::int64_t exact_affine(double k, double b, int x) {
  const double product = k * x, lost = std::fma(k, x, -product);
  double found = std::floor(product + b + 0.5);
  while (sign_of_sum({product, lost, b, 0.5 - found}) < 0) --found;
  while (sign_of_sum({product, lost, b, -0.5 - found}) >= 0) ++found;
  return static_cast<std::int64_t>(found);
}

}  // namespace detail

struct integer_affine {
  std::int64_t multiplier = 0, low = 0, high = 0;  // K, and the bounds of B
  int shift = 0;

  CORDEE_HOST_DEVICE constexpr std::int64_t operator()(int x) const {
    return (multiplier * x + low) >> shift;
  }
  /// The same function with a larger shift.
  [[nodiscard]] constexpr integer_affine at(int larger) const {
    const std::int64_t by = std::int64_t{1} << (larger - shift);
    return {multiplier * by, low * by, high * by + by - 1, larger};
  }
  /// Whether 32 bits hold the sums of all inputs.
  [[nodiscard]] constexpr bool fits_32_bits(whole_range in) const {
    const auto magnitude = [](std::int64_t v) { return v < 0 ? -v : v; };
    const std::int64_t x = std::max(magnitude(in.low), magnitude(in.high));
    return magnitude(multiplier) * x + magnitude(low) <= std::numeric_limits<std::int32_t>::max();
  }
  friend constexpr bool operator==(const integer_affine&, const integer_affine&) = default;
};

/// For wanted(x), which is k x + b rounded as the caller means it. Nothing where no shift up to
/// `most` is exact.
template <std::invocable<int> Wanted>
std::optional<integer_affine> fit_integer_affine(double k, const Wanted& wanted, whole_range in,
                                                 int most = 30) {
  for (int shift = 0; shift <= most; ++shift) {
    const double scaled = std::ldexp(k, shift);
    for (const double multiplier : {std::floor(scaled), std::ceil(scaled)}) {
      integer_affine found{static_cast<std::int64_t>(multiplier),
                           std::numeric_limits<std::int64_t>::min(),
                           std::numeric_limits<std::int64_t>::max(), shift};
      for (int x = in.low; x <= in.high && found.low <= found.high; ++x) {
        const std::int64_t unit = std::int64_t{1} << shift,
                           base = wanted(x) * unit - found.multiplier * x;
        found.low = std::max(found.low, base);
        found.high = std::min(found.high, base + unit - 1);
      }
      if (found.low <= found.high) return found;
    }
  }
  return std::nullopt;
}

/// For the real numbers that k and b are, halves up; nothing for what is not finite.
inline std::optional<integer_affine> fit_integer_affine(double k, double b, whole_range in,
                                                        int most = 30) {
  const double reach = std::abs(k) * std::max(std::abs(in.low), std::abs(in.high)) + std::abs(b);
  if (!(reach < 0x1p30)) return std::nullopt;
  return fit_integer_affine(
      k, [=](int x) { return detail::exact_affine(k, b, x); }, in, most);
}

}  // namespace cordee::inline CORDEE_ABI
