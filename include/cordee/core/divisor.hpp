// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Division of many numbers by one, with the bits of a division (Markstein, 1990). A GPU calls a
// function for a division of doubles.
//
//   q = a r,   a / d = q + (a - q d) r,   r = 1 / d
//
// The remainder is exact, and where a / d is next to the middle of two numbers, q is one of them:
// what r's rounding adds is less than the distance from the middle. Requires that the remainder
// does not underflow: |a| and |a / d| of at least 2^-960.
#pragma once

#include <cordee/core/config.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

class divisor {
 public:
  CORDEE_HOST_DEVICE explicit divisor(double d) : divisor_(d), reciprocal_(1 / d) {}
  [[nodiscard]] CORDEE_HOST_DEVICE double quotient(double a) const {
    const double q = a * reciprocal_;
    return fma(fma(-q, divisor_, a), reciprocal_, q);
  }

 private:
  double divisor_, reciprocal_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
