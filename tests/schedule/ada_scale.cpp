// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs whose gradients it observes: tests/train/step/decided_batch.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/schedule/ada_scale.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/schedule/warmup.hpp>
#include <cordee/testing/schedule_laws.hpp>

using namespace cordee;
using namespace cordee::detail::schedule;

static_assert(AdaptiveSchedule<ada_scale<constant>> && HasScheduleState<ada_scale<constant>>);
static_assert(needs_gradient_noise<ada_scale<constant>>() && !needs_gradient_noise<constant>() &&
              needs_gradient_noise<warmup<ada_scale<constant>>>());

namespace {

observation with(double epoch, double variance, double squared) {
  return {.epoch = epoch, .loss = 1, .squared_gradient = squared, .gradient_variance = variance};
}

}  // namespace

TEST_CASE("ada_scale obeys the laws of schedules") {
  CHECK(schedule_laws(ada_scale{polynomial{.peak = 0.1, .epochs = 90}, 8}, 90) == "");
}

TEST_CASE("ada_scale: the gain is the scale in noise, 1 without it, and the ratio between") {
  ada_scale noise{constant{0.1}, 8}, none{constant{0.1}, 8}, both{constant{0.1}, 8, 0};
  CHECK(noise.gain() == 1);
  noise.observe(with(0, 5, -1));
  none.observe(with(0, -1, 5));
  both.observe(with(0, 1, 3));
  CHECK(noise.gain() == 8);
  CHECK(none.gain() == 1);
  CHECK(both.gain() == (8 * 1 + 3) / 4.0);
  CHECK(both(0.5) == both.gain() * 0.1);
  both.observe(with(1, 0, 0));  // no gradient at all
  CHECK(both.gain() == 1);
}

TEST_CASE("ada_scale: averages are divided by their weights; unmeasured updates leave them") {
  ada_scale s{constant{0.1}, 4, 0.75};
  s.observe(with(0, 1, 3));
  CHECK(s.gain() == (4 * 1 + 3) / 4.0);  // of one update: itself
  s.observe({.epoch = 1, .loss = 1});
  CHECK(s.gain() == (4 * 1 + 3) / 4.0);
  s.observe(with(2, 2, 2));
  const double v = (0.75 * 0.25 * 1 + 0.25 * 2), m = (0.75 * 0.25 * 3 + 0.25 * 2);
  CHECK(std::abs(s.gain() - (4 * v + m) / (v + m)) < 1e-15 * 8);
}

TEST_CASE("ada_scale: an update moves the inner schedule by the gain that it had") {
  // At gain = scale an epoch of data is one epoch of the inner schedule, at gain 1 a quarter.
  ada_scale s{polynomial{.peak = 1, .epochs = 10, .power = 1}, 4, 0};
  s.observe(with(0, 1, 0));  // began with gain 1; the next has 4
  CHECK(s.progress(1) == 0.25);
  CHECK(s(1) == 4 * (1 - 0.025));
  s.observe(with(1, 0, 1));  // began with gain 4; the next has 1
  CHECK(s.progress(3) == 0.25 + 2);
  s.observe(with(3, 0, 1));
  CHECK(s.progress(7) == 2.25 + 1);
  CHECK(s.progress(0) == 2.25);  // before the last update nothing is taken back
}

TEST_CASE("ada_scale: its state is seven numbers, with which another one goes on") {
  ada_scale a{constant{0.1}, 4};
  for (int k = 0; k < 5; ++k) {
    ada_scale b{constant{0.1}, 4};
    std::ranges::copy(a.state(), b.state().begin());
    a.observe(with(k, k, 1));
    b.observe(with(k, k, 1));
    CHECK(a.seen == b.seen);
  }
}

TEST_CASE("ada_scale describes itself and refuses nonsense") {
  CHECK(ada_scale{constant{0.1}, 8}.describe() ==
        "times AdaScale's gain at 8 times the batch of: constant 0.1");
  CHECK(std::isinf(end_epoch_of(ada_scale{constant{0.1}, 8})));
  for (const double bad : {0.5, -1.0, HUGE_VAL, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS((ada_scale{constant{0.1}, bad}(0)), usage_error);
  for (const double bad : {-0.1, 1.0})
    CHECK_THROWS_AS((ada_scale{constant{0.1}, 2, bad}(0)), usage_error);
}
