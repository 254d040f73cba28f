// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/schedule/akiba_slow_start.hpp>
#include <cordee/schedule/scaled.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

TEST_CASE("akiba_slow_start: the steps of the paper, for a batch of 32,768") {
  const linear_scaled s{akiba_slow_start{}, 256, 32768};  // 12.8 by the linear rule
  constexpr double steps[][3]{{0, 40, 6.4}, {40, 70, 0.96}, {70, 85, 0.128}, {85, 90, 0.0128}};
  for (const auto& [begin, end, learning_rate] : steps)
    for (const double e : {begin, begin + 1, std::nextafter(end, 0)})
      CHECK(s(e) == relative(learning_rate, 1e-14));
}

TEST_CASE("akiba_slow_start: describes itself") {
  CHECK(akiba_slow_start{.learning_rate = 12.8}.describe() ==
        "Akiba's slow start: 12.8 times 0.5, 0.075, 0.01, 0.001 from epochs 0, 40, 70, 85 on");
}
