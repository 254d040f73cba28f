// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/target_accuracy.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// A model that finds 0, 1, 2, … of 10 samples in evaluations one after another.
struct learner : quadratic<fp64> {
  std::int64_t seen = 0;
  void forward(const packed_parameters& w, span_on<Real, cpu> plane, const batch<cpu>& b, phase p,
               cpu::stream s) {
    quadratic<fp64>::forward(w, plane, b, p, s);
    if (p == phase::evaluate) ++seen;
  }
  [[nodiscard]] metrics read_metrics(cpu::stream) const { return {loss, seen - 1, 0, samples}; }
};

struct outcome {
  target_accuracy target;
  run_summary summary;
};

/// Of each rank; every rank evaluates ten samples an epoch.
auto outcomes(int ranks, const target_accuracy& target, double first = 0, double epochs = 5) {
  return on_ranks(ranks, [&](threads comm) {
    learner model;
    trainer run{model, sgd{}, constant{.learning_rate = 0.05}, ring{comm}};
    toy_loader feed{.rank_count = ranks, .next_step = static_cast<std::int64_t>(10 * first)};
    outcome o{target, {}};
    o.summary = run.fit(feed, epochs,
                        validation{toy_data{static_cast<std::size_t>(10 * ranks)}, 10}, o.target);
    return o;
  });
}

}  // namespace

TEST_CASE("target_accuracy: ends the run on every rank where the validation reaches it first") {
  for (const int ranks : {1, 3})
    for (const outcome& o : outcomes(ranks, {0.2})) {
      CHECK(o.summary.steps == 30);
      CHECK(o.summary.stopped);
      REQUIRE(o.target.reached.has_value());
      CHECK(o.target.reached->steps == 30);
      CHECK(o.target.reached->epochs == 3);
      CHECK(o.target.reached->accuracy == 0.2);
      CHECK(o.target.reached->seconds >= o.summary.last.last.seconds);  // with the evaluation
      CHECK(o.target.reached->seconds > 0);
    }
}

TEST_CASE("target_accuracy: the run goes on where it is asked to, and the first time counts") {
  for (const outcome& o : outcomes(2, {.accuracy = 0.15, .stops = false})) {
    CHECK(o.summary.steps == 50);
    CHECK_FALSE(o.summary.stopped);
    REQUIRE(o.target.reached.has_value());
    CHECK(o.target.reached->steps == 30);
    CHECK(o.target.reached->accuracy == 0.2);
  }
  for (const outcome& o : outcomes(2, {.accuracy = 0.5})) {
    CHECK(o.summary.steps == 50);
    CHECK_FALSE(o.target.reached.has_value());
  }
}

TEST_CASE(
    "target_accuracy: a run that goes on from an epoch counts steps and epochs from its start") {
  for (const outcome& o : outcomes(2, {0.1}, 2)) {
    CHECK(o.summary.steps == 20);
    REQUIRE(o.target.reached.has_value());
    CHECK(o.target.reached->steps == 40);
    CHECK(o.target.reached->epochs == 4);
  }
}

TEST_CASE("target_accuracy: epochs are those of the data, where the batch has grown") {
  learner model;
  trainer run{model, sgd{}, constant{.learning_rate = 0.05}, solo{}};
  growing_loader feed;
  target_accuracy target{0.2};
  run.fit(feed, 5, validation{toy_data{10}, 10}, target);
  REQUIRE(target.reached.has_value());
  CHECK(target.reached->steps == 10 + 5 + 5);
  CHECK(target.reached->epochs == 3);
}

TEST_CASE("target_accuracy: no accuracy, and no validation to reach it, are refused") {
  for (const double nonsense : {0.0, -0.5, 1.5, 90.0, std::nan("")})
    CHECK(contains(error_message([&] { outcomes(1, {nonsense}); }),
                   "target_accuracy: .accuracy is above 0 and at most 1"));
  quadratic<fp64> model;
  trainer run{model, sgd{}, constant{.learning_rate = 0.05}, solo{}};
  toy_loader feed;
  CHECK(contains(error_message([&] { run.fit(feed, 1, target_accuracy{0.5}); }),
                 "target_accuracy: there is no validation"));
  CHECK(run.steps_taken() == 0);
}
