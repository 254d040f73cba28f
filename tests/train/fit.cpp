// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <deque>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/way_error.hpp"

using namespace cordee;
using namespace cordee::detail::precision;
using namespace cordee::detail::schedule;
using namespace cordee::detail::train;
using namespace support;

static_assert(Feed<toy_loader>);

namespace {

constexpr constant steady{0.05};

struct recorder {
  std::vector<step_record>* steps;
  std::vector<epoch_record>* epochs;
  int* begun;
  int* ended;

  void begin(const run_plan& p) {
    ++*begun;
    CHECK(p.steps == 25);
    CHECK(p.global_batch == p.micro_batch * p.ranks * p.accumulate);
  }
  void step(const step_record& r) { steps->push_back(r); }
  void epoch(const epoch_record& r) { epochs->push_back(r); }
  void end(const run_summary& s) {
    ++*ended;
    CHECK(s.steps == 25);
  }
};

struct step_recorder {
  std::vector<step_record>* steps;
  void step(const step_record& r) { steps->push_back(r); }
};

struct witness {
  std::vector<double>* seen;
  std::int64_t last;
  template <class Run>
  void begin_on_all_ranks(Run& run, double epoch) {
    seen->insert(seen->end(), {-1.0, epoch, static_cast<double>(run.steps_taken())});
  }
  template <class Run>
  bool step_on_all_ranks(Run& run, double epoch) {
    seen->push_back(epoch);
    return run.fit_state().update == last;
  }
  template <class Run>
  void end_on_all_ranks(Run& run) {
    seen->insert(seen->end(), {-2.0, static_cast<double>(run.steps_taken())});
  }
};

/// Ends the run with the second epoch.
struct stopping {
  std::vector<double>* losses;
  template <class Run>
  bool epoch_on_all_ranks(Run&, const epoch_record& e) {
    losses->push_back(e.train.loss);
    return losses->size() == 2;
  }
};

}  // namespace

TEST_CASE("fit: callbacks are called on rank 0 for every step and the end of every epoch") {
  for (const int ranks : {1, 2, 3}) {
    std::vector<step_record> steps;
    std::vector<epoch_record> epochs;
    int begun = 0, ended = 0;
    on_ranks(ranks, [&](threads comm) {
      quadratic<fp64> model{.shift = comm.rank() - 0.5 * (ranks - 1)};
      trainer run{model, sgd{}, steady, ring{comm}};
      toy_loader feed{.rank_count = ranks, .micro = 2};
      run.fit(feed, 2.5, recorder{&steps, &epochs, &begun, &ended});
      return 0;
    });
    CHECK(begun == 1);
    CHECK(ended == 1);
    REQUIRE(steps.size() == 25);
    for (std::int64_t k = 0; k < 25; ++k) {
      const step_record& r = steps[static_cast<std::size_t>(k)];
      CHECK(r.info.step == k);
      CHECK(r.info.epoch == static_cast<double>(k) / 10);
      CHECK(r.info.learning_rate == 0.05);
      CHECK(r.train.count == 2 * ranks);
      CHECK(r.skipped == 0);
    }
    CHECK(relatively_close(steps[0].grad_norm, 2.2936052406637026, 1e-12));
    REQUIRE(epochs.size() == 3);  // two whole ones and the half
    CHECK(epochs[0].last.info.step == 9);
    CHECK(epochs[2].last.info.step == 24);
  }
}

TEST_CASE("fit: records have sums over ranks, and the root mean square of local norms") {
  std::vector<step_record> steps;
  on_ranks(3, [&](threads comm) {
    quadratic<fp64> model{.shift = 1.0 * comm.rank()};
    if (comm.rank() == 2) model.poisons = {{1, 0}};
    trainer run{model, local_steps{sgd{}, 4}, steady, ring{comm}};
    toy_loader feed{.rank_count = 3};
    run.fit(feed, 0.3, step_recorder{&steps});
    return 0;
  });
  double loss = 0, square = 0;
  for (int r = 0; r < 3; ++r)
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i) {
        const double off = t4_start[k][i] - t4_center[k][i] - r, g = t4_curvature[k][i] * off;
        loss += t4_curvature[k][i] * off * off / 2;
        square += g * g / 3;
      }
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].train.count == 3);
  CHECK(relatively_close(steps[0].train.loss, loss, 1e-13));
  CHECK(relatively_close(steps[0].grad_norm, std::sqrt(square), 1e-13));
  CHECK(steps[0].grad_norm_local);
  CHECK(steps[0].skipped == 0);
  CHECK(steps[1].skipped == 1);
  CHECK(steps[2].skipped == 1);
}

TEST_CASE("fit: without callbacks the summary counts skipped steps, as with them") {
  struct observer {
    void step(const step_record&) {}
  };
  const auto skipped = [](auto optimizer, auto... callbacks) {
    return on_ranks(3, [&](threads comm) {
      quadratic<fp64> model{.shift = 1.0 * comm.rank()};
      if (comm.rank() != 0) model.poisons = {{0, 0}, {2, 1}};
      trainer run{model, optimizer, steady, ring{comm}};
      toy_loader feed{.rank_count = 3};
      return run.fit(feed, 0.3, callbacks...).skipped;
    });
  };
  // An exact mean: all ranks skip two steps. Local steps: two ranks skip two each.
  CHECK(skipped(sgd{}, observer{}) == std::deque<std::int64_t>(3, 2));
  CHECK(skipped(sgd{}) == std::deque<std::int64_t>(3, 2));
  CHECK(skipped(local_steps{sgd{}, 4}, observer{}) == std::deque<std::int64_t>(3, 4));
  CHECK(skipped(local_steps{sgd{}, 4}) == std::deque<std::int64_t>(3, 4));
}

TEST_CASE("fit: epochs that are NaN, infinite or negative are refused") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  toy_loader feed;
  for (const double epochs :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1.0})
    CHECK_THROWS_AS(run.fit(feed, epochs), usage_error);
  CHECK(run.steps_taken() == 0);
}

TEST_CASE("fit: continues at the loader's position") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  toy_loader feed;
  CHECK(run.fit(feed, 1).steps == 10);
  CHECK(run.fit(feed, 1).steps == 0);
  CHECK(run.fit(feed, 1.5).steps == 5);
  CHECK(run.steps_taken() == 15);
}

TEST_CASE("fit: members for all ranks are called there, after the others, and may end the run") {
  struct seeking : toy_loader {
    void seek(std::int64_t step) { next_step = step; }
  };
  const auto by_rank = on_ranks(3, [&](threads comm) {
    std::vector<double> seen;
    quadratic<fp64> model;
    trainer run{model, sgd{}, steady, ring{comm}};
    seeking feed;
    feed.rank_count = 3;
    const run_summary stopped = run.fit(feed, 1, witness{&seen, 3});
    CHECK((stopped.stopped && stopped.steps == 3 && feed.step() == 3));
    const run_summary s = run.fit(feed, 0.5, witness{&seen, 5});
    CHECK((!s.stopped && s.steps == 2));  // the last update ends the run anyhow
    return seen;
  });
  for (const auto& seen : by_rank)
    CHECK(seen == std::vector<double>{-1, 0, 0, 0.1, 0.2, 0.3, -2, 3, -1, 0.3, 3, 0.4, 0.5, -2, 5});
}

TEST_CASE("fit: epoch_on_all_ranks has the same record on every rank, and may end the run") {
  const auto by_rank = on_ranks(3, [&](threads comm) {
    quadratic<fp64> model{.shift = 1.0 * comm.rank()};
    trainer run{model, sgd{}, steady, ring{comm}};
    toy_loader feed{.rank_count = 3};
    std::vector<double> losses;
    const run_summary s = run.fit(feed, 4, stopping{&losses});
    CHECK((s.stopped && s.steps == 20));
    return losses;
  });
  for (const auto& losses : by_rank) {
    REQUIRE(losses.size() == 2);
    CHECK(losses == by_rank[0]);
  }
}

TEST_CASE("fit: momentum survives from one fit to the next") {
  const auto weights_after = [](std::initializer_list<double> until) {
    quadratic<fp64> model;
    trainer run{model, sgd{.momentum = 0.9}, steady, solo{}};
    toy_loader feed;
    for (const double epochs : until) run.fit(feed, epochs);
    return numbers(run.weights(), 0);
  };
  CHECK(weights_after({1, 2}) == weights_after({2}));
}

TEST_CASE("fit: a restored run seeks its loader, and goes on with skips and sums of the epoch") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  toy_loader feed;
  run.fit(feed, 1.5);
  detail::train::run_state state = run.state();
  CHECK((state.fit.update == 15 && state.fit.samples == 10 && state.fit.global_batch == 1));
  state.fit.skipped = 4;
  struct seeking : toy_loader {
    void seek(std::int64_t step) { next_step = step; }
  } other;
  run.restore(state);
  struct sums {
    std::vector<std::int64_t>* counts;
    void epoch(const epoch_record& e) { counts->push_back(e.train.count); }
  };
  std::vector<std::int64_t> counts;
  const run_summary s = run.fit(other, 3, sums{&counts});
  CHECK((s.steps == 15 && s.skipped == 4));
  CHECK(counts == std::vector<std::int64_t>{10, 10});
  CHECK(run.fit(other, 3).skipped == 0);  // another fit begins anew
  trainer stepped{model, sgd{}, steady, solo{}};
  stepped.restore(stepped.state());  // no fit was in it: the loader's own position counts
  toy_loader begun{.next_step = 7};
  CHECK(stepped.fit(begun, 1).steps == 3);
  run.restore(state);
  toy_loader cannot_seek;
  CHECK(contains(error_message([&] { run.fit(cannot_seek, 3); }),
                 "a loader without seek() is at update 0, the run is continued at 15"));
  run.restore(state);
  toy_loader larger{.micro = 2};
  CHECK(contains(error_message([&] { run.fit(larger, 3); }), "had 10 samples, this loader has 20"));
}

TEST_CASE("fit: an adaptive schedule observes the mean loss over all ranks, on every rank") {
  struct recording_schedule {
    std::vector<double>* losses;
    double operator()(double) const { return 0.01; }
    void observe(const observation& seen) { losses->push_back(seen.loss); }
  };
  static_assert(AdaptiveSchedule<recording_schedule>);
  const auto by_rank = on_ranks(3, [&](threads comm) {
    std::vector<double> losses;
    quadratic<fp64> model{.shift = 1.0 * comm.rank()};
    trainer run{model, sgd{}, recording_schedule{&losses}, ring{comm}};
    toy_loader feed{.rank_count = 3};
    run.fit(feed, 0.5);
    return losses;
  });
  for (const auto& losses : by_rank) {
    CHECK(losses.size() == 5);
    CHECK(losses == by_rank[0]);
  }
}

TEST_CASE(
    "fit: data of another shape, or a loader for other ranks, is rejected before the first step") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  struct wide : toy_loader {
    [[nodiscard]] extent image() const { return {3, 32, 32}; }
  } feed;
  CHECK(contains(error_message([&] { run.fit(feed, 1); }),
                 "images of 3x32x32 in 1 classes, the network takes 1x1x1"));
  toy_loader three{.rank_count = 3};
  CHECK_THROWS_AS(run.fit(three, 1), usage_error);
}
