// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("exact: a step with a NaN changes no bit of weights, slots and counters") {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (const int ranks : {1, 2, 3, 5}) {
      CAPTURE(ranks);
      const auto by_rank = on_ranks(ranks, [&](threads comm) {
        quadratic<fp64> model{.shift = spread(comm.rank(), ranks)};
        if (comm.rank() == ranks - 1) model.poisons = {{2, 1, value}};
        trainer run{
            model, lars{.trust_coefficient = 0.02}, slow_start, ring{comm}, {.bucket_bytes = 512}};
        bool held = true;
        for (int k = 0; k < 5; ++k) {
          const auto weights = copy(run.weights()), slot = copy(run.slot(0));
          const detail::train::step_outcome out = run.step(std::array{one_each(ranks)}, k);
          held = held && out.applied == (k != 2) && out.info.step == k;
          if (k == 2)  // statistics included: the whole plane
            held = held && same_bits(weights, copy(run.weights())) &&
                   same_bits(slot, copy(run.slot(0)));
          else
            held = held && !same_bits(weights, copy(run.weights()));
          if (k == 3)
            held = held && out.info.applied == 2 && out.info.round == 3 &&
                   out.info.previous_learning_rate == slow_start(1);
        }
        return held && run.statistics()[0] == 4;
      });
      for (const bool held : by_rank) CHECK(held);
    }
}

TEST_CASE("exact: max_nonfinite_steps in a row end the run with the segment's name") {
  for (const int ranks : {1, 3}) {
    const std::string message = error_message([&] {
      threads::launch(
          ranks,
          [&](threads comm) {
            quadratic<fp32> model;
            if (comm.rank() == 0) model.poisons = {{0, 2}, {2, 2}, {3, 2}, {4, 2}};
            trainer run{model, sgd{}, slow_start, ring{comm}, {.max_nonfinite_steps = 3}};
            for (int k = 0; k < 9; ++k) {
              run.step(std::array{one_each(ranks)}, k);
              CHECK(k < 4);
            }
          },
          long_deadline);
    });
    CHECK(contains(message, "3 steps in a row"));
    CHECK(contains(message, "\"W2\""));
    CHECK(contains(message, "step 4"));
  }
}

TEST_CASE("exact: running statistics that would be infinite skip the step, on all ranks alike") {
  for (const int ranks : {1, 3}) {
    const std::string message = error_message([&] {
      threads::launch(
          ranks,
          [&](threads comm) {
            quadratic<fp32> model;
            const double infinity = std::numeric_limits<double>::infinity();
            if (comm.rank() == 0) model.poisons = {{1, 4, infinity}, {3, 4, infinity}, {4, 4}};
            trainer run{model, sgd{}, slow_start, ring{comm}, {.max_nonfinite_steps = 2}};
            for (int k = 0; k < 9; ++k) {
              const bool applied = run.step(std::array{one_each(ranks)}, k).applied;
              CHECK(applied == (k != 1 && k != 3));
              CHECK(run.statistics()[0] == (k == 0 || k == 1 ? 1 : 2));
            }
          },
          long_deadline);
    });
    if (ranks == 1)
      CHECK(contains(message,
                     "2 steps in a row had a NaN or an infinity, this time "
                     "in what would be batch norm's running statistics"));
    CHECK(contains(message, "2 steps in a row"));
  }
}

TEST_CASE("without check_finite nothing is tested and nothing is skipped") {
  quadratic<fp64> model;
  model.poisons = {{1, 0}};
  trainer run{model, sgd{}, slow_start, solo{}, {.check_finite = false}};
  for (int k = 0; k < 3; ++k) CHECK(run.step(std::array{one_each(1)}, k).applied);
  CHECK(std::isnan(run.weights()[0]));
}

TEST_CASE("mixing: a bucket with a NaN counts as zero on its rank; the others are unaffected") {
  constexpr int ranks = 3;
  const auto by_rank = on_ranks(ranks, [&](threads comm) {
    quadratic<fp64> model{.shift = spread(comm.rank(), ranks)};
    if (comm.rank() == 1) model.poisons = {{0, 2}};
    trainer run{model,
                decentlam{.momentum = 0},
                learning_rates({0.1}),
                gossip{comm},
                {.bucket_bytes = 512}};
    const detail::train::step_outcome out = run.step(std::array{one_each(ranks)}, 0);
    CHECK(out.applied);
    CHECK(out.zeroed_buckets == (comm.rank() == 1 ? 1 : 0));
    CHECK(run.statistics()[0] == (comm.rank() == 1 ? 0 : 1));
    std::vector<std::vector<double>> w;
    for (std::size_t k = 0; k < 4; ++k) w.push_back(numbers(run.weights(), k));
    return w;
  });
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t i = 0; i < by_rank[0][k].size(); ++i) {
      double mixed = 0;  // a ring of three is complete: the mean of the proposals
      for (int r = 0; r < ranks; ++r) {
        const double g = t4_curvature[k][i] * (t4_start[k][i] - t4_center[k][i] - spread(r, ranks));
        mixed += (t4_start[k][i] - (r == 1 && k == 2 ? 0 : 0.1 * g)) / ranks;
      }
      for (const auto& w : by_rank) CHECK(close(w[k][i], mixed, 1e-14));
    }
}

TEST_CASE("local_steps: a rank skips its own step and takes part in the next average") {
  const auto by_rank = on_ranks(2, [&](threads comm) {
    quadratic<fp64> model{.shift = spread(comm.rank(), 2)};
    if (comm.rank() == 1) model.poisons = {{1, 0}};
    trainer run{model, local_steps{sgd{.momentum = 0}, 2}, learning_rates({0.1, 0.1}), ring{comm}};
    std::vector<double> first;
    for (int k = 0; k < 2; ++k) {
      const detail::train::step_outcome out = run.step(std::array{one_each(2)}, k);
      CHECK(out.applied == !(k == 1 && comm.rank() == 1));
      CHECK(run.statistics()[0] == (k == 1 && comm.rank() == 1 ? 1 : k + 1));
      first.push_back(run.weights()[0]);
    }
    return first;
  });
  const auto stepped = [](double w, int r) { return w - 0.1 * (w - 0.4 - spread(r, 2)); };
  CHECK(close(by_rank[0][0], stepped(0.5, 0), 1e-15));
  CHECK(close(by_rank[1][0], stepped(0.5, 1), 1e-15));
  const double mean = (stepped(stepped(0.5, 0), 0) + stepped(0.5, 1)) / 2;
  for (const auto& w : by_rank) CHECK(close(w[1], mean, 1e-15));
}
