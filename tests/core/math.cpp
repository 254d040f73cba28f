// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#ifdef _GLIBCXX_CMATH
#define CMATH_INCLUDED true
#else
#define CMATH_INCLUDED false
#endif

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace cordee;

TEST_CASE("math: no header that every trainer includes has <cmath>") {
  CHECK_FALSE(CMATH_INCLUDED);
}

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
    for (const double y : {x, -x}) {
      CHECK(detail::core::abs(y) == std::abs(y));
      CHECK(detail::core::ceil(y) == std::ceil(y));
      CHECK(detail::core::floor(y) == std::floor(y));
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
