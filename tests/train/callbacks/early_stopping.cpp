// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/early_stopping.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

struct begins {
  bool& begun;
  void begin(const run_plan&) { begun = true; }
};

/// The number of epochs after which the run ends, 0 if it does not.
int stops_after(early_stopping stopping, const std::vector<double>& losses) {
  quadratic<fp64> model;
  trainer run{model, sgd{}, constant{.learning_rate = 0.05}, solo{}};
  stopping.begin_on_all_ranks(run, 0.0);
  int epochs = 0;
  for (const double loss : losses) {
    ++epochs;
    epoch_record e;
    e.validation =
        metrics{.loss = 4 * loss, .top1 = loss < 4 ? 4 - std::lround(loss) : 0, .count = 4};
    if (stopping.epoch_on_all_ranks(run, e)) return epochs;
  }
  return 0;
}

}  // namespace

TEST_CASE("early_stopping: epochs in a row without improvement end the run") {
  const early_stopping two{.patience = 2, .measure = validation_measure::loss};
  CHECK(stops_after(two, {3, 2, 1, 0}) == 0);
  CHECK(stops_after(two, {3, 3, 3, 3}) == 3);  // the first one improves on nothing
  CHECK(stops_after(two, {3, 4, 2, 2.5, 1, 1, 1}) == 7);
  CHECK(stops_after({.patience = 2}, {3, 4, 2, 2, 1, 1, 1}) == 7);  // accuracy
  CHECK(stops_after({.patience = 1}, {1, 2}) == 2);
}

TEST_CASE("early_stopping: less than minimum_delta and NaN are no improvement") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  early_stopping one{.patience = 1, .minimum_delta = 0.5, .measure = validation_measure::loss};
  CHECK(stops_after(one, {3, 2.5}) == 2);
  CHECK(stops_after(one, {3, 2.25, 1.5}) == 0);
  one.patience = 2;
  CHECK(stops_after(one, {3, 2.75, 2.5, 2}) == 3);  // small steps do not add up to one
  CHECK(stops_after(one, {3, nan, nan}) == 3);
  CHECK(stops_after(one, {nan, 3, nan, 2}) == 0);
}

TEST_CASE("early_stopping: ends a run on every rank, and begins anew with the next") {
  for (const int ranks : {1, 2, 3}) {
    const auto steps = on_ranks(ranks, [&](threads comm) {
      quadratic<fp64> model;
      trainer run{model, sgd{}, constant{.learning_rate = 0}, ring{comm}};
      toy_loader feed{.rank_count = ranks};
      early_stopping stopping{.patience = 2, .measure = validation_measure::loss};
      const run_summary first = run.fit(feed, 9, validation{toy_data{}, 5}, stopping);
      CHECK(first.stopped);
      const run_summary second = run.fit(feed, 9, validation{toy_data{}, 5}, stopping);
      return std::vector{first.steps, second.steps};
    });
    for (const auto& of_rank : steps) {
      CHECK(of_rank[0] == 30);
      CHECK(of_rank[1] == 29);  // toy_loader, without seek(), was one update ahead
    }
  }
}

TEST_CASE("early_stopping: refuses a run without validation, and options without meaning") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, constant{.learning_rate = 0.05}, solo{}};
  toy_loader feed;
  CHECK(
      contains(error_message([&] { run.fit(feed, 2, early_stopping{}); }),
               "early_stopping compares the accuracy of a validation, and there is none: give fit "
               "validation{data} too"));
  CHECK(run.steps_taken() == 0);
  bool begun = false;  // another callback, which would have opened its file
  const auto refused = [&](early_stopping stopping) {
    return error_message([&] {
      run.fit(feed, 2, validation{toy_data{}, 5}, begins{begun}, stopping);
    });
  };
  CHECK(contains(refused({.patience = 0}), "patience is at least one epoch"));
  for (const double delta : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK(
        contains(refused({.minimum_delta = delta}), "minimum_delta is negative, NaN or infinite"));
  CHECK_FALSE(begun);
}
