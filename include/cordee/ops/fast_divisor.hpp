// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Division by a number known on the host, as a multiplication and a shift: three instructions where
// a GPU takes twenty for an integer division (Granlund and Montgomery, 1994).
//
//   n / d = floor(n m / 2^s),   s = 31 + ceil(log2 d),   m = ceil(2^s / d),   0 <= n < 2^31
//
// For numerators of 64 bits with quotients below 2^31, an estimate that is at most 2 too small is
// corrected:
//
//   e = floor(floor(n / 2^t) m / 2^32),   t = floor(log2 d),   m = floor(2^(t + 32) / d)
//   n / d - e < 2^t / d + floor(n / 2^t) / 2^32 + 1 < 3
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

/// Requires d > 0.
struct fast_wide_divisor {
  std::uint64_t multiplier, divisor;
  int shift;

  constexpr explicit fast_wide_divisor(int d)
      : divisor(static_cast<std::uint64_t>(d)),
        shift(static_cast<int>(std::bit_width(divisor)) - 1) {
    multiplier = (std::uint64_t{1} << (shift + 32)) / divisor;
  }
  /// Requires n < 2^31 d.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::int64_t quotient(std::uint64_t n) const {
    std::uint64_t q = (n >> shift) * multiplier >> 32, rest = n - q * divisor;
    for (; rest >= divisor; rest -= divisor) ++q;
    return static_cast<std::int64_t>(q);
  }
  /// Whether the divisor divides n, as large as in `quotient`.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr bool divides(std::uint64_t n) const {
    return static_cast<std::uint64_t>(quotient(n)) * divisor == n;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
