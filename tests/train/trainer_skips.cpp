// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/comm/gossip.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("exact: a step that is not finite leaves every bit of weights, slots and counters") {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (const int ranks : {1, 2, 3, 5}) {
      CAPTURE(ranks);
      const auto by_rank = on_ranks(ranks, [&](threads link) {
        quadratic<fp64> model{.shift = spread(link.rank(), ranks)};
        if (link.rank() == ranks - 1) model.poisons = {{2, 1, value}};
        trainer run{model, lars{.trust = 0.02}, slow_start, ring{link}, {.bucket_bytes = 512}};
        bool held = true;
        for (int k = 0; k < 5; ++k) {
          const auto weights = copy(run.weights()), slot = copy(run.slot(0));
          const step_outcome out = run.step(std::array{one_each(ranks)}, k);
          held = held && out.applied == (k != 2) && out.now.step == k;
          if (k == 2)  // statistics included: the whole plane
            held = held && same_bits(weights, copy(run.weights())) &&
                   same_bits(slot, copy(run.slot(0)));
          else
            held = held && !same_bits(weights, copy(run.weights()));
          if (k == 3)
            held = held && out.now.applied == 2 && out.now.round == 3 &&
                   out.now.previous_rate == slow_start(1);
        }
        return held && run.statistics()[0] == 4;
      });
      for (const bool held : by_rank) CHECK(held);
    }
}

TEST_CASE(
    "exact: after as many bad steps in a row as patience allows, the error names the segment") {
  for (const int ranks : {1, 3}) {
    const std::string said = complaint([&] {
      threads::launch(
          ranks,
          [&](threads link) {
            quadratic<fp32> model;
            if (link.rank() == 0) model.poisons = {{0, 2}, {2, 2}, {3, 2}, {4, 2}};
            trainer run{model, sgd{}, slow_start, ring{link}, {.patience = 3}};
            for (int k = 0; k < 9; ++k) {
              run.step(std::array{one_each(ranks)}, k);
              CHECK(k < 4);
            }
          },
          patient);
    });
    CHECK(contains(said, "3 steps in a row"));
    CHECK(contains(said, "\"W2\""));
    CHECK(contains(said, "step 4"));
  }
}

TEST_CASE("unguarded: nothing is looked at and nothing is skipped") {
  quadratic<fp64> model;
  model.poisons = {{1, 0}};
  trainer run{model, sgd{}, slow_start, solo{}, {.guarded = false}};
  for (int k = 0; k < 3; ++k) CHECK(run.step(std::array{one_each(1)}, k).applied);
  CHECK(std::isnan(run.weights()[0]));
}

TEST_CASE("mixing: a bucket that is not finite counts as zero on that rank; the others go on") {
  constexpr int ranks = 3;
  const auto by_rank = on_ranks(ranks, [&](threads link) {
    quadratic<fp64> model{.shift = spread(link.rank(), ranks)};
    if (link.rank() == 1) model.poisons = {{0, 2}};
    trainer run{model, decentlam{.momentum = 0}, rates({0.1}), gossip{link}, {.bucket_bytes = 512}};
    const step_outcome out = run.step(std::array{one_each(ranks)}, 0);
    CHECK(out.applied);
    CHECK(out.zeroed == (link.rank() == 1 ? 1 : 0));
    CHECK(run.statistics()[0] == (link.rank() == 1 ? 0 : 1));
    std::vector<std::vector<double>> w;
    for (std::size_t k = 0; k < 4; ++k) w.push_back(numbers(run.weights(), k));
    return w;
  });
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t i = 0; i < by_rank[0][k].size(); ++i) {
      double mixed =
          0;  // over a cycle of three, all neighbours: the plain mean of the trial points
      for (int r = 0; r < ranks; ++r) {
        const double g = t4_curvature[k][i] * (t4_start[k][i] - t4_centre[k][i] - spread(r, ranks));
        mixed += (t4_start[k][i] - (r == 1 && k == 2 ? 0 : 0.1 * g)) / ranks;
      }
      for (const auto& w : by_rank) CHECK(close(w[k][i], mixed, 1e-14));
    }
}

TEST_CASE("local: a rank skips its own step and still meets the others") {
  const auto by_rank = on_ranks(2, [&](threads link) {
    quadratic<fp64> model{.shift = spread(link.rank(), 2)};
    if (link.rank() == 1) model.poisons = {{1, 0}};
    trainer run{model, local{sgd{.momentum = 0}, 2}, rates({0.1, 0.1}), ring{link}};
    std::vector<double> first;
    for (int k = 0; k < 2; ++k) {
      const step_outcome out = run.step(std::array{one_each(2)}, k);
      CHECK(out.applied == !(k == 1 && link.rank() == 1));
      CHECK(run.statistics()[0] == (k == 1 && link.rank() == 1 ? 1 : k + 1));
      first.push_back(run.weights()[0]);
    }
    return first;
  });
  const auto stepped = [](double w, int r) { return w - 0.1 * (w - 0.4 - spread(r, 2)); };
  CHECK(close(by_rank[0][0], stepped(0.5, 0), 1e-15));
  CHECK(close(by_rank[1][0], stepped(0.5, 1), 1e-15));
  const double met = (stepped(stepped(0.5, 0), 0) + stepped(0.5, 1)) / 2;
  for (const auto& w : by_rank) CHECK(close(w[1], met, 1e-15));
}
