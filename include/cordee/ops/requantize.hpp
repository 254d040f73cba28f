// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Requantisation: a 32-bit accumulator times a real, in integer arithmetic, rounded once.
//
//   M = s_x s_w / s_y ~ multiplier 2^(shift - 31),  multiplier in [2^30, 2^31)
//   y = floor(acc multiplier / 2^(31 - shift) + 1/2)
#pragma once

#include <cmath>
#include <cstdint>

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

/// x times the factor, plus addend 2^(shift - 31), ties up, in integers of type Wide: not
/// saturated. Requires |x| <= 2^31 and |addend| <= 2^61.
template <class Wide>
CORDEE_HOST_DEVICE constexpr Wide rescaled(Wide x, fixed_point factor, Wide addend = Wide{0}) {
  const int total = 31 - factor.shift;
  const Wide product = x * Wide{factor.multiplier} + addend;
  return total == 0 ? product : (product + (Wide{1} << (total - 1))) >> total;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
