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

namespace {

struct halving {
  double rate = 1;
  double operator()(double) const { return rate; }
  void observe(double, double mean_loss) {
    if (mean_loss > 1) rate /= 2;
  }
};

struct no_schedule {
  double operator()(double);  // not const: the rate would depend on how often it was asked
};

}  // namespace

TEST_CASE("a schedule is anything that maps an epoch to a rate without changing itself") {
  constexpr auto lambda = [](double epoch) { return 1 / (1 + epoch); };
  static_assert(Schedule<decltype(lambda)>);
  static_assert(Schedule<halving>);
  static_assert(Schedule<constant>);
  static_assert(!Schedule<no_schedule>);
  static_assert(!Schedule<double>);
  CHECK(in_words(lambda) == "a schedule of your own, 1 at epoch 0");
  CHECK(in_words(constant{.rate = 0.5}) == "constant 0.5");
}

TEST_CASE("a rate that no step can be taken with is an error that says where") {
  CHECK(rate_of([](double epoch) { return 2 * epoch; }, 3) == 6);
  CHECK(rate_of([](double) { return 0; }, 3) == 0);
  for (const double wrong : {-1e-9, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_WITH_AS(rate_of([=](double) { return wrong; }, 1.5),
                         doctest::Contains("at epoch 1.5: a rate must be"), error);
}

TEST_CASE("a schedule that observes is adaptive, the others are not") {
  static_assert(AdaptiveSchedule<halving>);
  static_assert(!AdaptiveSchedule<constant>);
  halving s;
  s.observe(0, 2.0);
  s.observe(1, 0.5);
  CHECK(s(1) == 0.5);
}

TEST_CASE("a schedule that says where it ends is asked through whatever is around it") {
  struct own {
    double operator()(double) const { return 1; }
    double ends() const { return 20; }
  };
  CHECK(end_of(constant{}) == HUGE_VAL);
  CHECK(end_of(halving{}) == HUGE_VAL);
  CHECK(end_of(warmup{5, linear_scaled{own{}, 1, 2}}) == 20);
  CHECK(end_of(sqrt_scaled{warmup_then{5, own{}}, 1, 2}) == 25);
  CHECK(end_of(legw{1, cosine{.peak = 1, .epochs = 30}, 1, 2}) == 30);
}
