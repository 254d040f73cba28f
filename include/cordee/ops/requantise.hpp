// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A sum of 32 bits times a real, in integers alone (gemmlowp, TensorFlow Lite).
//
//   M = s_x s_w / s_y ~ multiplier 2^(shift - 31),  multiplier in [2^30, 2^31)
//   rounded twice:  y = round(round(acc 2^max(shift, 0) multiplier / 2^31) / 2^max(-shift, 0))
//   rounded once:   y = floor(acc multiplier / 2^(31 - shift) + 1/2)
//
// The two differ by one on some sums, so a format names the one it means. Of the first, the inner
// rounding takes ties up, the outer one away from zero.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// A positive real as an integer and a power of two; `shift` > 0 is to the left.
struct fixed_point {
  std::int32_t multiplier = 0;
  int shift = 0;
  friend constexpr bool operator==(const fixed_point&, const fixed_point&) = default;

  /// Zero for what is too small; `m` is not negative and below 2^31.
  static fixed_point of(double m) {
    if (m == 0) return {};
    int shift = 0;
    const double fraction = std::frexp(m, &shift);
    std::int64_t q = std::llround(fraction * 0x1p31);
    if (q == std::int64_t{1} << 31) {
      q /= 2;
      ++shift;
    }
    if (shift < -31) return {};
    return {static_cast<std::int32_t>(q), shift};
  }
};

namespace detail {
CORDEE_HOST_DEVICE constexpr std::int32_t saturated(std::int64_t x) {
  constexpr std::int64_t low = std::numeric_limits<std::int32_t>::min(),
                         high = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(x < low ? low : x > high ? high : x);
}
}  // namespace detail

/// a b / 2^31, ties up.
CORDEE_HOST_DEVICE constexpr std::int32_t high_product(std::int32_t a, std::int32_t b) {
  const std::int64_t product = std::int64_t{a} * b, half = std::int64_t{1} << 30;
  // Division cuts towards zero; -2^31 squared alone leaves the range.
  return detail::saturated((product + (product >= 0 ? half : 1 - half)) / (std::int64_t{1} << 31));
}

/// x / 2^e, ties away from zero.
CORDEE_HOST_DEVICE constexpr std::int32_t rounded_shift(std::int32_t x, int e) {
  const std::int64_t mask = (std::int64_t{1} << e) - 1, rest = x & mask;
  const std::int64_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
  return static_cast<std::int32_t>((std::int64_t{x} >> e) + (rest > threshold ? 1 : 0));
}

/// A left shift saturates.
CORDEE_HOST_DEVICE constexpr std::int32_t requantise_twice(std::int32_t acc, fixed_point by) {
  const int left = by.shift > 0 ? by.shift : 0;
  const std::int32_t shifted = detail::saturated(std::int64_t{acc} * (std::int64_t{1} << left));
  return rounded_shift(high_product(shifted, by.multiplier), left - by.shift);
}

CORDEE_HOST_DEVICE constexpr std::int32_t requantise_once(std::int32_t acc, fixed_point by) {
  const int total = 31 - by.shift;
  const std::int64_t product = std::int64_t{acc} * by.multiplier;
  if (total == 0) return detail::saturated(product);
  return detail::saturated((product + (std::int64_t{1} << (total - 1))) >> total);
}

}  // namespace cordee::inline CORDEE_ABI
