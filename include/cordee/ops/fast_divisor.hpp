// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Division by a number known on the host, as a multiplication and a shift: three instructions where
// a GPU takes twenty for an integer division (Granlund and Montgomery, 1994).
//
//   n / d = floor(n m / 2^s),   s = 31 + ceil(log2 d),   m = ceil(2^s / d),   0 <= n < 2^31
#pragma once

#include <bit>
#include <cstdint>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct fast_divisor {
  std::uint32_t multiplier = 0, shift = 0;
  int divisor = 0;

  fast_divisor() = default;
  /// 0 is allowed for divisors that are not used.
  constexpr explicit fast_divisor(int d) : divisor(d) {
    if (d <= 0) return;
    const auto n = static_cast<std::uint32_t>(d);
    shift = 31 + static_cast<std::uint32_t>(std::bit_width(n - 1));
    multiplier = static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + n - 1) / n);
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr int quotient(int n) const {
    return static_cast<int>(std::uint64_t{static_cast<std::uint32_t>(n)} * multiplier >> shift);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
