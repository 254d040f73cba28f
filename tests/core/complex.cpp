// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <complex>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/complex.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

namespace {

const std::vector<double> parts{0, 1, -1, 0.3, -2.5, 1e-9, -1e-9, 1e100, -1e-100};

bool close(detail::core::complex ours, std::complex<double> theirs) {
  return std::abs(std::complex<double>(ours.re, ours.im) - theirs) <= 1e-15 * std::abs(theirs);
}

}  // namespace

TEST_CASE("complex: sums, products, absolute value and square root agree with std::complex") {
  for (const double re : parts)
    for (const double im : parts) {
      const detail::core::complex a{re, im};
      const std::complex<double> s(re, im);
      CHECK(detail::core::abs(a) == relative(std::abs(s), 1e-15));
      CHECK(close(sqrt(a), std::sqrt(s)));
      CHECK(close(detail::core::unit_complex(im), std::polar(1.0, im)));
      for (const double other : parts) {
        const detail::core::complex b{other, 0.7};
        const std::complex<double> t(other, 0.7);
        CHECK(close(a + b, s + t));
        CHECK(close(a - b, s - t));
        CHECK(close(other * a, other * s));
        const std::complex<double> product = s * t;
        CHECK(close(a * b, product));
      }
    }
}
