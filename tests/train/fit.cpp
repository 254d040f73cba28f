// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(Feed<toy_feed>);

namespace {

constexpr auto steady = [](double) { return 0.05; };

struct diary {
  std::vector<step_record>* steps;
  std::vector<epoch_record>* epochs;
  int* begun;
  int* ended;

  void begin(const run_plan& p) {
    ++*begun;
    CHECK(p.steps == 25);
    CHECK(p.global_batch == p.per_rank * p.ranks * p.accumulate);
  }
  void step(const step_record& r) { steps->push_back(r); }
  void epoch(const epoch_record& r) { epochs->push_back(r); }
  void end(const run_summary& s) {
    ++*ended;
    CHECK(s.steps == 25);
  }
};

}  // namespace

TEST_CASE("listeners hear every step and every epoch's end, on rank 0 alone") {
  for (const int ranks : {1, 2, 3}) {
    std::vector<step_record> steps;
    std::vector<epoch_record> epochs;
    int begun = 0, ended = 0;
    on_ranks(ranks, [&](threads link) {
      quadratic<fp64> model{.shift = link.rank() - 0.5 * (ranks - 1)};
      trainer run{model, sgd{}, steady, ring{link}};
      toy_feed feed{.ranks_count = ranks, .micro = 2};
      run.fit(feed, 2.5, diary{&steps, &epochs, &begun, &ended});
      return 0;
    });
    CHECK(begun == 1);
    CHECK(ended == 1);
    REQUIRE(steps.size() == 25);
    for (std::int64_t k = 0; k < 25; ++k) {
      const step_record& r = steps[static_cast<std::size_t>(k)];
      CHECK(r.now.step == k);
      CHECK(r.now.epoch == static_cast<double>(k) / 10);
      CHECK(r.now.rate == 0.05);
      CHECK(r.train.count == 2 * ranks);
      CHECK(r.skipped == 0);
    }
    CHECK(steps[0].grad_norm == doctest::Approx(2.2936052406637026).epsilon(1e-12));
    REQUIRE(epochs.size() == 3);  // two whole ones and the half
    CHECK(epochs[0].last.now.step == 9);
    CHECK(epochs[2].last.now.step == 24);
  }
}

TEST_CASE("what is recorded is agreed: sums over ranks, the root mean square of local norms") {
  std::vector<step_record> steps;
  struct ear {
    std::vector<step_record>* steps;
    void step(const step_record& r) { steps->push_back(r); }
  };
  on_ranks(3, [&](threads link) {
    quadratic<fp64> model{.shift = 1.0 * link.rank()};
    if (link.rank() == 2) model.poisons = {{1, 0}};
    trainer run{model, local{sgd{}, 4}, steady, ring{link}};
    toy_feed feed{.ranks_count = 3};
    run.fit(feed, 0.3, ear{&steps});
    return 0;
  });
  double loss = 0, square = 0;
  for (int r = 0; r < 3; ++r)
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i) {
        const double off = t4_start[k][i] - t4_centre[k][i] - r, g = t4_curvature[k][i] * off;
        loss += t4_curvature[k][i] * off * off / 2;
        square += g * g / 3;
      }
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].train.count == 3);
  CHECK(steps[0].train.loss == doctest::Approx(loss).epsilon(1e-13));
  CHECK(steps[0].grad_norm == doctest::Approx(std::sqrt(square)).epsilon(1e-13));
  CHECK(steps[0].grad_norm_local);
  CHECK(steps[0].skipped == 0);
  CHECK(steps[1].skipped == 1);
  CHECK(steps[2].skipped == 1);
}

TEST_CASE("fit goes on where the loader stands") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  toy_feed feed;
  CHECK(run.fit(feed, 1).steps == 10);
  CHECK(run.fit(feed, 1).steps == 0);
  CHECK(run.fit(feed, 1.5).steps == 5);
  CHECK(run.steps_taken() == 15);
}

TEST_CASE("an adaptive schedule is fed the agreed mean loss, alike on every rank") {
  struct attentive {
    std::vector<double>* heard;
    double operator()(double) const { return 0.01; }
    void observe(double, double loss) { heard->push_back(loss); }
  };
  static_assert(AdaptiveSchedule<attentive>);
  const auto by_rank = on_ranks(3, [&](threads link) {
    std::vector<double> heard;
    quadratic<fp64> model{.shift = 1.0 * link.rank()};
    trainer run{model, sgd{}, attentive{&heard}, ring{link}};
    toy_feed feed{.ranks_count = 3};
    run.fit(feed, 0.5);
    return heard;
  });
  for (const auto& heard : by_rank) {
    CHECK(heard.size() == 5);
    CHECK(heard == by_rank[0]);
  }
}

TEST_CASE("data of another shape, or a loader for other ranks, is refused before the first step") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  struct wide : toy_feed {
    [[nodiscard]] extent image() const { return {3, 32, 32}; }
  } feed;
  CHECK(contains(complaint([&] { run.fit(feed, 1); }),
                 "images of 3x32x32 in 1 classes, the network takes 1x1x1"));
  toy_feed three{.ranks_count = 3};
  CHECK_THROWS_AS(run.fit(three, 1), misuse);
}
