// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/schedule/multistep.hpp>

using namespace cordee;

TEST_CASE("multistep: the epoch of a milestone already has the lower learning rate") {
  constexpr multistep s{.learning_rate = 1, .milestones = {30, 60, 80}, .factor = 0.1};
  static_assert(Schedule<multistep>);
  for (const double m : {30.0, 60.0, 80.0}) {
    CAPTURE(m);
    CHECK(s(m) == s(std::nextafter(m, 0.0)) * 0.1);
    CHECK(s(m) == s(m + 9));
  }
}

TEST_CASE("multistep: the exponent is the number of milestones reached, in any order") {
  constexpr multistep sorted{
      .learning_rate = 2, .milestones = {1, 2, 3, 4, 5, 6, 7, 8}, .factor = 0.5};
  constexpr multistep mixed{
      .learning_rate = 2, .milestones = {8, 3, 5, 1, 2, 7, 6, 4}, .factor = 0.5};
  for (int e = 0; e < 12; ++e) {
    CHECK(sorted(e) == std::ldexp(2.0, -std::min(e, 8)));
    CHECK(mixed(e) == sorted(e));
  }
}

TEST_CASE("multistep: without milestones it is constant") {
  CHECK(multistep{.learning_rate = 0.7}(0) == 0.7);
  CHECK(multistep{.learning_rate = 0.7}(1e9) == 0.7);
  CHECK(multistep{.learning_rate = 0.7}.describe() == "constant 0.7");
  CHECK(multistep{.learning_rate = 3.2, .milestones = {30, 60}}.describe() ==
        "3.2, times 0.1 at epochs 30, 60");
}
