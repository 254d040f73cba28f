// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <utility>

#include <doctest/doctest.h>

#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/cosine.hpp>
#include <cordee/schedule/multistep.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/schedule/scaled.hpp>
#include <cordee/schedule/warmup.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using namespace cordee::detail::schedule;
using support::relative;

namespace {

constexpr double ulp = 0x1p-52;  // unit in the last place of 1

// Linear from `start`, continuous at the end of the warm-up.
template <class W>
void check_ramp(const W& s, double epochs, double start) {
  CHECK(s(0) == start);
  const double before = std::nextafter(epochs, 0.0);
  CHECK(s(before) == relative(s(epochs), 8 * ulp));
  const double slope = (s(epochs) - start) / epochs;
  for (int i = 0; i < 16; ++i) {
    const double e = epochs * i / 16;
    CHECK(s(e) == relative(start + slope * e, 8 * ulp));
  }
}

struct counting {
  int* calls;
  double* last;
  double operator()(double) const { return 1; }
  void observe(const observation& seen) {
    ++*calls;
    *last = seen.epoch;
  }
};

}  // namespace

TEST_CASE("warm-up is linear from its start and continuous at its end") {
  for (const double epochs : {0.3125, 1.0, 5.0})
    for (const double start : {0.0, 0.1}) {
      CAPTURE(epochs);
      CAPTURE(start);
      check_ramp(warmup{epochs, constant{3.2}, start_learning_rate{start}}, epochs, start);
      check_ramp(warmup{epochs, polynomial{.peak = 6.4, .epochs = 90}, start_learning_rate{start}},
                 epochs, start);
      check_ramp(warmup_then{epochs, cosine{.peak = 6.4, .epochs = 85}, start_learning_rate{start}},
                 epochs, start);
    }
}

TEST_CASE("after the warm-up, warmup equals its schedule, warmup_then the schedule delayed by it") {
  const polynomial inner{.peak = 6.4, .epochs = 90};
  const warmup over{5, inner};
  const warmup_then before{5, inner};
  for (int e = 5; e < 100; ++e) {
    CHECK(over(e) == inner(e));
    CHECK(before(e) == inner(e - 5));
  }
}

TEST_CASE("a warm-up of 0 epochs changes nothing, a negative length is refused") {
  const polynomial inner{.peak = 1, .epochs = 3};
  for (const double e : {0.0, 0.25, 2.0}) {
    CHECK(warmup{0, inner}(e) == inner(e));
    CHECK(warmup_then{0, inner}(e) == inner(e));
  }
  CHECK_THROWS_AS((warmup{-1, inner}(0)), usage_error);
}

TEST_CASE(
    "warmup: the golden curve of Goyal, 32 workers at 0.1 each") {  // docs/mathematics.md, 7.6
  constexpr std::array<std::pair<double, double>, 10> golden{{{0, 0.1},
                                                              {1, 0.72},
                                                              {2.5, 1.65},
                                                              {4.999, 3.19938},
                                                              {5, 3.2},
                                                              {29.999, 3.2},
                                                              {30, 0.32},
                                                              {60, 0.032},
                                                              {80, 0.0032},
                                                              {89, 0.0032}}};
  const warmup s{
      5, linear_scaled{multistep{.learning_rate = 0.1, .milestones = {30, 60, 80}}, 256, 8192},
      start_learning_rate{0.1}};
  for (const auto& [epoch, learning_rate] : golden) {
    CAPTURE(epoch);
    CHECK(std::abs(s(epoch) - learning_rate) < 1e-12);
  }
}

TEST_CASE("warmup_then: the golden curve of MLPerf's polynomial") {  // docs/mathematics.md, 7.6
  constexpr std::array<std::pair<double, double>, 8> golden{{{0, 0},
                                                             {1, 1},
                                                             {5, 5},
                                                             {10, 10},
                                                             {11, 9.78142954957},
                                                             {55, 2.55532139838},
                                                             {99, 0.00493028619732},
                                                             {100, 0.00130757154933}}};
  const warmup_then s{10, polynomial{.peak = 10, .epochs = 91, .power = 2, .end = 1e-4}};
  for (const auto& [step, learning_rate] : golden) {
    CAPTURE(step);
    CHECK(std::abs(s(step) - learning_rate) < 1e-11);
  }
}

TEST_CASE("warm-up forwards losses to an adaptive schedule, warmup_then with shifted epochs") {
  static_assert(AdaptiveSchedule<warmup<counting>>);
  static_assert(!AdaptiveSchedule<warmup<constant>>);
  int calls = 0;
  double last = 0;
  warmup over{2, counting{&calls, &last}};
  detail::schedule::observe(over, {1, 0.5});
  CHECK(calls == 1);
  warmup_then before{2, counting{&calls, &last}};
  before.observe({1, 0.5});  // before the first epoch of the schedule
  CHECK(calls == 1);
  before.observe({5, 0.5});
  CHECK(calls == 2);
  CHECK(last == 3);
}

TEST_CASE("warm-up describes itself and its schedule") {
  CHECK(warmup{5, constant{3.2}, start_learning_rate{0.1}}.describe() ==
        "warm-up from 0.1 over the first 5 epochs of: constant 3.2");
  CHECK(warmup_then{5, constant{3.2}}.describe() ==
        "warm-up from 0 over 5 epochs, then: constant 3.2");
}
