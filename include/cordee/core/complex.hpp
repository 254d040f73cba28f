// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Complex numbers for eigenvalues. <complex> includes streams and locales (docs/compile_time.md).
#pragma once

#include <cordee/core/config.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

struct complex {
  double re = 0, im = 0;

  friend complex operator+(complex a, complex b) { return {a.re + b.re, a.im + b.im}; }
  friend complex operator-(complex a, complex b) { return {a.re - b.re, a.im - b.im}; }
  friend complex operator*(complex a, complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend complex operator*(double a, complex b) { return {a * b.re, a * b.im}; }
};

inline double abs(complex a) { return core::hypot(a.re, a.im); }

/// e^(i angle)
inline complex unit_complex(double angle) { return {core::cos(angle), core::sin(angle)}; }

/// The square root whose real part is not negative.
inline complex sqrt(complex a) {
  const double larger = core::sqrt((abs(a) + core::abs(a.re)) / 2);  // a sum: no cancellation
  if (larger == 0) return {};
  const double smaller = a.im / (2 * larger);
  return a.re >= 0 ? complex{larger, smaller}
                   : complex{core::abs(smaller), core::copysign(larger, a.im)};
}

}  // namespace cordee::inline CORDEE_ABI::detail::core
