// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/schedule/polynomial.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

namespace {
constexpr double ulp = 0x1p-52;  // unit in the last place of 1
}  // namespace

TEST_CASE("polynomial: falls from the peak to the end without rising, and is constant afterwards") {
  for (const double power : {0.5, 1.0, 2.0, 11.0}) {
    CAPTURE(power);
    const polynomial s{.peak = 6.4, .epochs = 90, .power = power, .end = 0.1};
    CHECK(s(0) == relative(6.4, 2 * ulp));
    CHECK(s(90) == 0.1);
    CHECK(s(1000) == 0.1);
    for (int e = 1; e <= 180; ++e) CHECK(s(0.5 * e) <= s(0.5 * (e - 1)));
  }
}

TEST_CASE("polynomial: power 1 is a straight line, power 2 its square") {
  const polynomial line{.peak = 1, .epochs = 8, .power = 1}, square{.peak = 1, .epochs = 8};
  for (int e = 0; e <= 8; ++e) {
    CHECK(line(e) == 1 - e / 8.0);
    CHECK(square(e) == line(e) * line(e));
  }
}

TEST_CASE("polynomial refuses a missing length, which would divide by zero") {
  CHECK_THROWS_AS(polynomial{.peak = 1}(0), usage_error);
}

TEST_CASE("polynomial: describes itself") {
  CHECK(polynomial{.peak = 6.4, .epochs = 90}.describe() ==
        "polynomial from 6.4 to 0 over 90 epochs, power 2");
}
