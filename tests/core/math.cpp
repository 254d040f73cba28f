// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/cordee.hpp>

#ifdef _GLIBCXX_CMATH
#define CMATH_INCLUDED true
#else
#define CMATH_INCLUDED false
#endif

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace cordee;

TEST_CASE("math: no header that the umbrella includes has <cmath>") { CHECK_FALSE(CMATH_INCLUDED); }

TEST_CASE("math: the values are those of <cmath>") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double x : {0.0, 1e-300, 0.3, 0.5, 1.5, 2.5, 1e10}) {
    CHECK(detail::core::sqrt(x) == std::sqrt(x));
    CHECK(detail::core::sqrt(static_cast<float>(x)) == std::sqrt(static_cast<float>(x)));
    CHECK(detail::core::exp(-x) == std::exp(-x));
    CHECK(detail::core::log(x) == std::log(x));
    CHECK(detail::core::log1p(x) == std::log1p(x));
    CHECK(detail::core::pow(x, 0.7) == std::pow(x, 0.7));
    CHECK(detail::core::cos(x) == std::cos(x));
    CHECK(detail::core::sin(x) == std::sin(x));
    CHECK(detail::core::log10(x) == std::log10(x));
    CHECK(detail::core::expm1(-x) == std::expm1(-x));
    CHECK(detail::core::erfc(x) == std::erfc(x));
    CHECK(detail::core::hypot(x, 2) == std::hypot(x, 2));
    CHECK(detail::core::ldexp(x, -3) == std::ldexp(x, -3));
    CHECK(detail::core::fmax(x, 1) == std::fmax(x, 1));
    const auto single = static_cast<float>(x);
    CHECK(detail::core::exp(-single) == std::exp(-single));
    CHECK(detail::core::log(single) == std::log(single));
    CHECK(detail::core::log1p(single) == std::log1p(single));
    CHECK(detail::core::nearbyint(single) == std::nearbyint(single));
    CHECK(detail::core::ldexp(single, -3) == std::ldexp(single, -3));
    for (const double y : {x, -x}) {
      CHECK(detail::core::abs(y) == std::abs(y));
      CHECK(detail::core::ceil(y) == std::ceil(y));
      CHECK(detail::core::floor(y) == std::floor(y));
      CHECK(detail::core::nearbyint(y) == std::nearbyint(y));
      CHECK(detail::core::signbit(y) == std::signbit(y));
      CHECK(detail::core::copysign(2, y) == std::copysign(2, y));
      CHECK(detail::core::abs(static_cast<float>(y)) == std::abs(static_cast<float>(y)));
      CHECK(detail::core::llround(y) == std::llround(y));
    }
  }
  for (const double x : {1.0, infinity, -infinity, nan}) {
    CHECK(detail::core::isfinite(x) == std::isfinite(x));
    CHECK(detail::core::isnan(x) == std::isnan(x));
    CHECK(detail::core::isfinite(static_cast<float>(x)) == std::isfinite(static_cast<float>(x)));
    CHECK(detail::core::isnan(static_cast<float>(x)) == std::isnan(static_cast<float>(x)));
  }
}
