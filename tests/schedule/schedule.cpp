// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/cosine.hpp>
#include <cordee/schedule/legw.hpp>
#include <cordee/schedule/scaled.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/schedule/warmup.hpp>

using namespace cordee;
using namespace cordee::detail::schedule;

namespace {

struct halving {
  double learning_rate = 1;
  double operator()(double) const { return learning_rate; }
  void observe(const observation& seen) {
    if (seen.loss > 1) learning_rate /= 2;
  }
};

struct no_schedule {
  double operator()(double);  // not const: could depend on the number of calls
};

}  // namespace

TEST_CASE("a schedule is a const callable from an epoch to a learning rate") {
  constexpr auto lambda = [](double epoch) { return 1 / (1 + epoch); };
  static_assert(Schedule<decltype(lambda)>);
  static_assert(Schedule<halving>);
  static_assert(Schedule<constant>);
  static_assert(!Schedule<no_schedule>);
  static_assert(!Schedule<double>);
  CHECK(describe(lambda) == "a schedule of your own, 1 at epoch 0");
  CHECK(describe(constant{.learning_rate = 0.5}) == "constant 0.5");
}

TEST_CASE("learning_rate_of refuses a negative or non-finite learning rate and names the epoch") {
  CHECK(learning_rate_of([](double epoch) { return 2 * epoch; }, 3) == 6);
  CHECK(learning_rate_of([](double) { return 0; }, 3) == 0);
  for (const double wrong : {-1e-9, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_WITH_AS(learning_rate_of([=](double) { return wrong; }, 1.5),
                         doctest::Contains("at epoch 1.5: it must be finite"), error);
}

TEST_CASE("a schedule with observe is adaptive, others are not") {
  static_assert(AdaptiveSchedule<halving>);
  static_assert(!AdaptiveSchedule<constant>);
  halving s;
  s.observe({0, 2.0});
  s.observe({1, 0.5});
  CHECK(s(1) == 0.5);
}

TEST_CASE("end_epoch_of: wrappers forward end_epoch; a schedule without it has no end") {
  struct ending {
    double operator()(double) const { return 1; }
    double end_epoch() const { return 20; }
  };
  CHECK(end_epoch_of(constant{}) == HUGE_VAL);
  CHECK(end_epoch_of(halving{}) == HUGE_VAL);
  CHECK(end_epoch_of(warmup{5, linear_scaled{ending{}, 1, 2}}) == 20);
  CHECK(end_epoch_of(sqrt_scaled{warmup_then{5, ending{}}, 1, 2}) == 25);
  CHECK(end_epoch_of(legw{1, cosine{.peak = 1, .epochs = 30}, 1, 2}) == 30);
}
