// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/schedule/polynomial.hpp>

using namespace cordee;

TEST_CASE("polynomial: from the peak to the end, never rising, and staying there") {
  for (const double power : {0.5, 1.0, 2.0, 11.0}) {
    CAPTURE(power);
    const polynomial s{.peak = 6.4, .epochs = 90, .power = power, .end = 0.1};
    CHECK(s(0) == doctest::Approx(6.4).epsilon(1e-15));
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

TEST_CASE("polynomial: without its length it is a misuse, not a division by zero") {
  CHECK_THROWS_AS(polynomial{.peak = 1}(0), misuse);
}

TEST_CASE("polynomial: describes itself") {
  CHECK(polynomial{.peak = 6.4, .epochs = 90}.describe() ==
        "polynomial from 6.4 to 0 over 90 epochs, power 2");
}
