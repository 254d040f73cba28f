// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Requantisation: a 32-bit accumulator times a real, in integer arithmetic (gemmlowp, TensorFlow
// Lite).
//
//   M = s_x s_w / s_y ~ multiplier 2^(shift - 31),  multiplier in [2^30, 2^31)
//   double rounding:  y = round(round(acc 2^max(shift, 0) multiplier / 2^31) / 2^max(-shift, 0))
//   single rounding:  y = floor(acc multiplier / 2^(31 - shift) + 1/2)
//
// The two differ by one for some accumulators, so a format names the one it uses. In double
// rounding, the inner one rounds ties up, the outer one away from zero.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// A non-negative real as an integer times a power of two; `shift` > 0 shifts left.
struct fixed_point {
  std::int32_t multiplier = 0;
  int shift = 0;
  friend constexpr bool operator==(const fixed_point&, const fixed_point&) = default;

  /// Requires 0 <= m < 2^31. Returns zero where m is below 2^-32.
  static fixed_point from_real(double m) {
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

CORDEE_HOST_DEVICE constexpr std::int32_t saturated(std::int64_t x) {
  constexpr std::int64_t low = std::numeric_limits<std::int32_t>::min(),
                         high = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(x < low ? low : x > high ? high : x);
}

/// a b / 2^31, ties up: gemmlowp's SaturatingRoundingDoublingHighMul.
CORDEE_HOST_DEVICE constexpr std::int32_t rounding_doubling_high_mul(std::int32_t a,
                                                                     std::int32_t b) {
  const std::int64_t product = std::int64_t{a} * b, half = std::int64_t{1} << 30;
  // Division truncates towards zero; only -2^31 squared overflows.
  return saturated((product + (product >= 0 ? half : 1 - half)) / (std::int64_t{1} << 31));
}

/// x / 2^e, ties away from zero: gemmlowp's RoundingDivideByPOT.
CORDEE_HOST_DEVICE constexpr std::int32_t rounding_divide_by_power_of_two(std::int32_t x, int e) {
  const std::int64_t mask = (std::int64_t{1} << e) - 1, remainder = x & mask;
  const std::int64_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
  return static_cast<std::int32_t>((std::int64_t{x} >> e) + (remainder > threshold ? 1 : 0));
}

/// x times the factor, plus addend 2^(shift - 31), ties up, in integers of type Wide: not
/// saturated. Requires |x| <= 2^31 and |addend| <= 2^61.
template <class Wide>
CORDEE_HOST_DEVICE constexpr Wide rescaled(Wide x, fixed_point factor, Wide addend = Wide{0}) {
  const int total = 31 - factor.shift;
  const Wide product = x * Wide{factor.multiplier} + addend;
  return total == 0 ? product : (product + (Wide{1} << (total - 1))) >> total;
}

/// A left shift saturates.
CORDEE_HOST_DEVICE constexpr std::int32_t requantize_double_rounding(std::int32_t acc,
                                                                     fixed_point factor) {
  const int left = factor.shift > 0 ? factor.shift : 0;
  const std::int32_t shifted = saturated(std::int64_t{acc} * (std::int64_t{1} << left));
  return rounding_divide_by_power_of_two(rounding_doubling_high_mul(shifted, factor.multiplier),
                                         left - factor.shift);
}

CORDEE_HOST_DEVICE constexpr std::int32_t requantize_single_rounding(std::int32_t acc,
                                                                     fixed_point factor) {
  return saturated(rescaled(std::int64_t{acc}, factor));
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
