// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <complex>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/complex.hpp>

using namespace cordee;

namespace {

const std::vector<double> parts{0, 1, -1, 0.3, -2.5, 1e-9, -1e-9, 1e100, -1e-100};

bool alike(detail::complex ours, std::complex<double> theirs) {
  return std::abs(std::complex<double>(ours.re, ours.im) - theirs) <= 1e-15 * std::abs(theirs);
}

}  // namespace

TEST_CASE("complex: sums, products, size and root are the standard's") {
  for (const double re : parts)
    for (const double im : parts) {
      const detail::complex a{re, im};
      const std::complex<double> s(re, im);
      CHECK(detail::abs(a) == doctest::Approx(std::abs(s)).epsilon(1e-15));
      CHECK(alike(sqrt(a), std::sqrt(s)));
      CHECK(alike(detail::turned(im), std::polar(1.0, im)));
      for (const double other : parts) {
        const detail::complex b{other, 0.7};
        const std::complex<double> t(other, 0.7);
        CHECK(alike(a + b, s + t));
        CHECK(alike(a - b, s - t));
        CHECK(alike(other * a, other * s));
        const std::complex<double> product = s * t;
        CHECK(alike(a * b, product));
      }
    }
}
