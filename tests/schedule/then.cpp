// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/cosine.hpp>
#include <cordee/schedule/plateau.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/schedule/scaled.hpp>
#include <cordee/schedule/then.hpp>
#include <cordee/schedule/warmup.hpp>

using namespace cordee;
using namespace cordee::detail::schedule;

TEST_CASE("then: the first schedule up to its epochs, then the second from its own beginning") {
  const cosine first{.peak = 2, .epochs = 10};
  const polynomial second{.peak = 1, .epochs = 5};
  const then s{first, 10, second};
  for (double e = 0; e < 10; e += 0.37) CHECK(s(e) == first(e));
  for (double e = 10; e < 16; e += 0.37) CHECK(s(e) == second(e - 10));
  CHECK(s.end_epoch() == 15);
  CHECK(end_epoch_of(then{first, 10, constant{1}}) == HUGE_VAL);
  const then three{constant{1}, 2, then{constant{2}, 3, constant{3}}};
  CHECK((three(1.9) == 1 && three(2) == 2 && three(4.9) == 2 && three(5) == 3));
  CHECK(three.describe() ==
        "constant 1; from epoch 2 on, counted from there: constant 2; from epoch 3 on, counted "
        "from there: constant 3");
}

TEST_CASE("then: a warm-up before or over a schedule, and scaled parts, compose by nesting") {
  const warmup_then s{2, then{scaled{constant{1}, 0.5}, 3, polynomial{.peak = 1, .epochs = 4}}};
  CHECK(s(1) == 0.25);
  CHECK(s(2) == 0.5);
  CHECK(s(5) == 1);
  CHECK(s(9) == 0);
  CHECK(scaled{constant{3}, 0.5}.describe() == "0.5 times: constant 3");
  CHECK(end_epoch_of(scaled{cosine{.peak = 1, .epochs = 7}, 2}) == 7);
  CHECK_THROWS_AS((scaled{constant{1}, -1}(0)), usage_error);
  CHECK_THROWS_AS((then{constant{1}, 0, constant{2}}(0)), usage_error);
}

TEST_CASE("then: only the part that acts observes, at its own epochs; its state is the whole's") {
  struct recording {
    std::vector<double> numbers{};
    double operator()(double) const { return 1; }
    void observe(const observation& seen) { numbers.push_back(seen.epoch); }
    std::vector<double>& state() { return numbers; }
  };
  then before{recording{}, 2, constant{1}};
  then after{constant{1}, 2, recording{}};
  static_assert(!AdaptiveSchedule<then<constant, constant>>);
  static_assert(needs_validation<then<constant, warmup<plateau>>>() &&
                needs_validation<then<plateau, constant>>() &&
                !needs_validation<then<constant, training_plateau>>());
  for (const double e : {0.0, 1.5, 2.0, 3.0}) {
    before.observe({e, 1});
    after.observe({e, 1});
  }
  CHECK(before.state() == std::vector{0.0, 1.5});
  CHECK(after.state() == std::vector{0.0, 1.0});
}
