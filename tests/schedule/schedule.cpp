// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/schedule/akiba_slow_start.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/cosine.hpp>
#include <cordee/schedule/exponential.hpp>
#include <cordee/schedule/legw.hpp>
#include <cordee/schedule/mlperf_poly2.hpp>
#include <cordee/schedule/multistep.hpp>
#include <cordee/schedule/one_cycle.hpp>
#include <cordee/schedule/plateau.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/schedule/scaled.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/schedule/then.hpp>
#include <cordee/schedule/warmup.hpp>

#include "tests/support/ranks.hpp"

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

/// A wrapper that declares none of the optional members.
template <Schedule S>
struct halved {
  S inner{};
  double operator()(double epoch) const { return inner(epoch) / 2; }
};
struct counting {
  std::vector<double> seen{};
  double operator()(double) const { return 1; }
  [[nodiscard]] double end_epoch() const { return 7; }
  void observe(const observation& o) { seen.push_back(o.loss); }
  [[nodiscard]] std::vector<double>& state() { return seen; }
};
static_assert(AdaptiveSchedule<halved<halved<counting>>> && HasScheduleState<halved<counting>>);
static_assert(!AdaptiveSchedule<halved<constant>> && !HasScheduleState<halved<constant>>);

TEST_CASE("schedule: a wrapper has the optional members of the schedule inside") {
  halved<halved<counting>> s{};
  observe(s, {0, 3});
  CHECK(s(0) == 0.25);
  CHECK(s.inner.inner.seen == std::vector{3.0});
  CHECK(&state_of(s) == &s.inner.inner.seen);
  CHECK(end_epoch_of(s) == 7);
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

TEST_CASE("schedules refuse an option that is NaN or infinite, by its name") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto refused = [](const auto& s) { return support::error_message([&] { (void)s(1.0); }); };
  CHECK(refused(polynomial{.epochs = 9, .power = infinity}) ==
        "polynomial: .power is inf: give a finite number");
  CHECK(refused(polynomial{.epochs = infinity}) ==
        "polynomial: .epochs is inf: give a finite number");
  CHECK(refused(warmup{infinity, constant{}}) ==
        "warmup: the number of warm-up epochs is inf: give a finite number");
  CHECK(refused(warmup_then{5, constant{}, {infinity}}) ==
        "warmup_then: the first learning rate is inf: give a finite number");
  const auto names = [&](const auto& s, const char* name) {
    CHECK_MESSAGE(refused(s).find(name) != std::string::npos, refused(s));
  };
  names(constant{infinity}, "constant: .learning_rate is inf");
  names(cosine{.epochs = infinity}, "cosine: .epochs is inf");
  names(exponential{.learning_rate = -infinity}, "exponential: .learning_rate is -inf");
  names(mlperf_poly2{.epochs = 9, .update = infinity}, "mlperf_poly2: .update is inf");
  names(multistep{.milestones = {30, std::nan("")}}, "multistep: a milestone is nan");
  names(one_cycle{.epochs = 9, .start_divisor = infinity}, "one_cycle: .start_divisor is inf");
  names(one_cycle{.epochs = 9, .end_divisor = infinity}, "one_cycle: .end_divisor is inf");
  names(plateau{.learning_rate = infinity}, "plateau: .learning_rate is inf");
  names(scaled{constant{}, infinity}, "scaled: .factor is inf");
  names(then{constant{}, infinity, constant{}}, "then: .epochs is inf");
  names(akiba_slow_start{infinity}, "akiba_slow_start: .learning_rate is inf");
}

TEST_CASE("schedules refuse a negative learning rate or milestone, by its name, before its epoch") {
  const auto refused = [](const auto& s) { return support::error_message([&] { (void)s(0.0); }); };
  const std::string rule = ": it must be 0 or more";
  CHECK(refused(constant{-0.1}) == "constant: .learning_rate is -0.1" + rule);
  CHECK(refused(multistep{.learning_rate = -1}) == "multistep: .learning_rate is -1" + rule);
  CHECK(refused(multistep{.milestones = {30, -60}}) == "multistep: a milestone is -60" + rule);
  CHECK(refused(exponential{-0.1}) == "exponential: .learning_rate is -0.1" + rule);
  CHECK(refused(akiba_slow_start{-0.1}) == "akiba_slow_start: .learning_rate is -0.1" + rule);
  CHECK(refused(one_cycle{.peak = -1, .epochs = 9}) == "one_cycle: .peak is -1" + rule);
  CHECK(refused(warmup{5, constant{}, {-1}}) == "warmup: the first learning rate is -1" + rule);
  CHECK(refused(warmup_then{5, constant{}, {-1}}) ==
        "warmup_then: the first learning rate is -1" + rule);
  CHECK(refused(then{constant{}, 30, then{constant{}, 30, constant{-0.1}}}) ==
        "constant: .learning_rate is -0.1" + rule);
  CHECK(refused(then{constant{}, 30, cosine{}}).starts_with("cosine: set .epochs"));
}
