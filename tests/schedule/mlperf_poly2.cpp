// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/schedule/mlperf_poly2.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/schedule/warmup.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

TEST_CASE("mlperf_poly2: the golden learning rates") {  // docs/mathematics.md, 7.6
  constexpr double golden[][2]{{0.0, 0.0},
                               {1.0, 1.0},
                               {5.0, 5.0},
                               {10.0, 10.0},
                               {11.0, 9.78142954957},
                               {55.0, 2.55532139838},
                               {99.0, 0.00493028619732},
                               {100.0, 0.00130757154933}};
  const mlperf_poly2 steps{.peak = 10, .warmup_epochs = 10, .epochs = 100, .update = 1};
  const mlperf_poly2 epochs{.peak = 10, .warmup_epochs = 0.1, .epochs = 1, .update = 0.01};
  for (const auto& [step, learning_rate] : golden) {
    CHECK(std::abs(steps(step) - learning_rate) < 1e-11);
    CHECK(std::abs(epochs(step / 100) - learning_rate) < 1e-11);
  }
}

TEST_CASE("mlperf_poly2 is warmup_then of a polynomial of one update more, and ends at its end") {
  const mlperf_poly2 s{.peak = 6.4, .warmup_epochs = 5, .epochs = 90, .end = 0.01, .update = 0.1};
  const warmup_then same{5, polynomial{.peak = 6.4, .epochs = 85.1, .power = 2, .end = 0.01}};
  for (double e = 0; e < 95; e += 0.37) CHECK(s(e) == relative(same(e), 1e-12));
  CHECK(s.end_epoch() == 90.1);
  CHECK(s(s.end_epoch()) == 0.01);
  CHECK(s(90) > 0.01);
  CHECK(s(1000) == 0.01);
}

TEST_CASE("mlperf_poly2: describes itself and refuses a warm-up that fills the run") {
  CHECK(mlperf_poly2{.peak = 10, .warmup_epochs = 5, .epochs = 90}.describe() ==
        "MLPerf's poly2: warm-up over 5 epochs to 10, then a square to 0.0001 at epoch 90");
  CHECK_THROWS_AS(mlperf_poly2{}(0), usage_error);
  CHECK_THROWS_AS((mlperf_poly2{.warmup_epochs = 90, .epochs = 90}(0)), usage_error);
  CHECK_THROWS_AS((mlperf_poly2{.warmup_epochs = -1, .epochs = 90}(0)), usage_error);
  CHECK_THROWS_AS((mlperf_poly2{.epochs = 90, .update = -0.1}(0)), usage_error);
  CHECK_THROWS_AS((mlperf_poly2{.epochs = 1, .update = 1}(0)), usage_error);
}
