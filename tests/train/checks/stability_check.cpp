// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/way_error.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

namespace {

double spread(int rank, int ranks) { return 0.3 * (rank - 0.5 * (ranks - 1)); }

// The message of the exception at the trainer's construction; empty if there is none.
template <class O, class G>
std::string construction_error(const O& optimizer, const G& topology, int ranks,
                               trainer_options options = {}) {
  return error_message([&] {
    threads::launch(
        ranks,
        [&](threads comm) {
          quadratic<fp32> model;
          trainer run{model, optimizer, constant{0.1}, gossip{comm, topology}, options};
        },
        long_deadline);
  });
}

// Weights of every rank after some steps on T4 with data of their own.
template <class O, class Reduce>
auto trained(int ranks, const O& optimizer, const Reduce& reduce,
             const std::vector<double>& learning_rate) {
  return on_ranks(ranks, [&](threads comm) {
    quadratic<fp64> model{.shift = spread(comm.rank(), ranks)};
    trainer run{
        model, optimizer, learning_rates(learning_rate), reduce(comm), {.bucket_bytes = 512}};
    for (std::size_t k = 0; k < learning_rate.size(); ++k)
      run.step(std::array{one_each(ranks)}, static_cast<double>(k));
    return std::vector<double>(run.weights().begin(), run.weights().begin() + 256);
  });
}

}  // namespace

TEST_CASE("expect_stable: unstable momentum is an error with its radius and stable alternatives") {
  const std::string message = construction_error(decentlam{}, topologies::exponential{}, 8);
  CAPTURE(message);
  CHECK(contains(message, "with momentum 0.9 (heavy ball)"));
  CHECK(contains(message, "multiplied by 1.2375 per round"));
  CHECK(contains(message, "a momentum below 0.519816"));
  CHECK(contains(message, "topologies::lazy{topology, theta} with theta below 0.0470"));
  CHECK(contains(message, "Nesterov's form, whose radius is 0.989891"));
  CHECK(contains(message, "symmetric_exponential, whose radius is 0.948683"));

  const std::string cube =
      construction_error(decentlam{.nesterov = true}, topologies::hypercube{}, 8);
  CAPTURE(cube);
  CHECK(contains(cube, "with momentum 0.9 (Nesterov)"));
  CHECK(contains(cube, "momentum without Nesterov's form, whose radius is 0.948683"));

  CHECK(contains(construction_error(decentlam_over{lars{}}, topologies::one_peer{}, 4),
                 "multiplied by 1.0795 per round"));
  CHECK(contains(construction_error(decentlam{}, topologies::random_matching{}, 4),
                 "multiplied by 1.05399 per round"));
}

TEST_CASE(
    "expect_stable: passes for every alternative that a message names, and without momentum") {
  CHECK(construction_error(decentlam{}, topologies::ring{}, 8).empty());
  CHECK(construction_error(decentlam{.momentum = 0.5198}, topologies::exponential{}, 8).empty());
  CHECK(construction_error(decentlam{}, topologies::lazy{topologies::exponential{}, 0.047}, 8)
            .empty());
  CHECK(construction_error(decentlam{.nesterov = true}, topologies::exponential{}, 8).empty());
  CHECK(construction_error(decentlam{}, topologies::symmetric_exponential{}, 8).empty());
  CHECK(construction_error(decentlam{}, topologies::hypercube{}, 8).empty());
  CHECK(construction_error(local_steps{sgd{}, 1}, topologies::exponential{}, 8).empty());
  CHECK(construction_error(decentlam{}, topologies::exponential{}, 1).empty());
  CHECK(construction_error(decentlam{}, topologies::exponential{}, 8, {.check_stability = false})
            .empty());
}

TEST_CASE("with check_stability off the disagreement grows by the computed radius") {
  // 1e-4 of the curvature, at most 4, moves the radius by about as much. The largest modes are
  // complex and come in one pair, so the distance beats within a factor of a few: over 200 rounds,
  // log(10) / 200, hence the hundredth and a quarter.
  const auto growth = [](const auto& optimizer, const auto& topology, int ranks) {
    return on_ranks(ranks, [&](threads comm) {
      quadratic<fp64> model{.shift = std::sin(1 + 3.7 * comm.rank() * comm.rank())};  // all modes
      trainer run{
          model, optimizer, constant{1e-4}, gossip{comm, topology}, {.check_stability = false}};
      double early = 0;
      for (int k = 0; k < 240; ++k) {
        if (k == 40) early = run.consensus_distance();
        run.step(std::array{one_each(ranks)}, k);
      }
      return std::pow(run.consensus_distance() / early, 1.0 / 200);
    });
  };
  for (const double g : growth(decentlam{}, topologies::exponential{}, 4))
    CHECK(close(g, 1.155475391, 0.0125));
  for (const double g : growth(decentlam{}, topologies::exponential{}, 8))
    CHECK(close(g, 1.237497409, 0.0125));
  for (const double g : growth(decentlam{}, topologies::one_peer{}, 8))
    CHECK(close(g, 1.113510233, 0.0125));
  for (const double g : growth(decentlam{.nesterov = true}, topologies::hypercube{}, 8))
    CHECK(close(g, 1.296964111, 0.0125));
}

TEST_CASE("consensus_distance: is equal on all ranks, and of trainable weights only") {
  on_ranks(3, [](threads comm) {
    quadratic<fp64> model{.shift = spread(comm.rank(), 3)};
    trainer run{model, local_steps{sgd{}, 9}, constant{0.1}, gossip{comm}};
    CHECK(run.consensus_distance() < 1e-15);
    run.statistics()[0] = comm.rank();
    CHECK(run.consensus_distance() < 1e-15);
    run.weights()[1] += 3 * comm.rank();
    CHECK(close(run.consensus_distance(), std::sqrt(6.0), 1e-14));
    return 0;
  });
}

TEST_CASE("decentlam over an exact mean equals velocity_sgd, by default both corrected") {
  const auto over_ring = [](threads comm) { return ring{comm}; };
  const std::vector<double> any{0.1, 0.0, 0.02, 0.3, 2e-11, 0.1, 0.05, 0.05};
  const std::vector<double> same(12, 0.1);
  for (const int ranks : rank_counts)
    for (const bool nesterov : {false, true}) {
      const decentlam optimizer{.momentum = 0.8, .weight_decay = 0.01, .nesterov = nesterov};
      const velocity_sgd v{.momentum = 0.8, .weight_decay = 0.01, .nesterov = nesterov};
      const sgd p{.momentum = 0.8, .weight_decay = 0.01, .nesterov = nesterov};
      const auto equal = [&](const auto& a, const auto& b) {
        for (std::size_t r = 0; r < a.size(); ++r)
          for (std::size_t i = 0; i < 256; ++i) CHECK(close(a[r][i], b[r][i], 1e-13));
      };
      equal(trained(ranks, optimizer, over_ring, any), trained(ranks, v, over_ring, any));
      equal(trained(ranks, optimizer, over_ring, same), trained(ranks, p, over_ring, same));
      const auto over_all = [](threads comm) { return gossip{comm, topologies::complete{}}; };
      if (ranks > 1)
        equal(trained(ranks, optimizer, over_all, any), trained(ranks, v, over_ring, any));
    }
}

TEST_CASE("decentlam: learning rates of zero and almost zero leave all weights finite") {
  for (const double start : {0.0, 2e-11})
    for (const auto& w : trained(4, decentlam{},
                                 [](threads comm) {
                                   return gossip{comm, topologies::symmetric_exponential{}};
                                 },
                                 {start, start, 0.1, 0.1, 0.0, 0.1}))
      for (const double x : w) CHECK(std::abs(x) < 10);
}

TEST_CASE("decentlam_over{lars}: a bucket with a NaN counts as zero and reaches no other rank") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    on_ranks(3, [&](threads comm) {
      quadratic<fp64> model{.shift = spread(comm.rank(), 3)};
      if (comm.rank() == 1) model.poisons = {{1, 2, bad}, {2, 0, bad}};
      trainer run{model,
                  decentlam_over{lars{.trust_coefficient = 0.02}},
                  constant{0.5},
                  gossip{comm},
                  {.bucket_bytes = 512}};
      for (int k = 0; k < 5; ++k)
        CHECK(run.step(std::array{one_each(3)}, k).zeroed_buckets ==
              (comm.rank() == 1 && (k == 1 || k == 2) ? 1 : 0));
      for (std::size_t i = 0; i < 256; ++i) CHECK(std::isfinite(run.weights()[i]));
      return 0;
    });
}

TEST_CASE("decentlam converges on stable graphs, and ranks end near each other") {
  // The mean is at the optimum but for (1 - lr a)^800 of the way, a >= 1/4, which is 2 % of it, and
  // less with momentum.
  for (const auto& [distance, mean] : on_ranks(8, [](threads comm) {
         quadratic<fp64> model{.shift = spread(comm.rank(), 8)};
         trainer run{model, decentlam{.momentum = 0.5}, constant{0.02},
                     gossip{comm, topologies::one_peer{}}};
         for (int k = 0; k < 800; ++k) run.step(std::array{one_each(8)}, k);
         const double distance = run.consensus_distance();
         allreduce_mean(comm, cpu{1}, run.weights(), cpu::stream{});
         std::vector<double> mean;
         for (std::size_t k = 0; k < 4; ++k)
           for (const double w : numbers(run.weights(), k)) mean.push_back(w);
         return std::pair{distance, mean};
       })) {
    CHECK(distance > 0);
    CHECK(distance < 0.2);
    std::vector<double> start, optimum;
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i) {
        start.push_back(t4_start[k][i]);
        optimum.push_back(t4_center[k][i]);
      }
    CHECK(way_error(mean, optimum, start) < 0.02);
  }
}

TEST_CASE(
    "disagreement_radius: 0 where optimizer and reducer leave none; fit warns of one near 1") {
  struct plan_recorder {
    std::string* warning;
    void begin(const run_plan& p) {
      for (const std::string& text : p.warnings)
        if (contains(text, "disagreement")) *warning = text;
    }
  };
  struct outcome {
    double radius = -1;
    std::string warning;
  };
  const auto planned = [](const auto& optimizer, const auto& reduce) {
    outcome out;
    on_ranks(4, [&](threads comm) {
      quadratic<fp64> model;
      toy_loader feed{4};
      trainer run{model, optimizer, constant{0.0}, reduce(comm), {.check_stability = false}};
      if (comm.rank() == 0)
        out.radius = detail::train::disagreement_radius(run.optimizer(), run.reducer());
      run.fit(feed, 0.1, plan_recorder{&out.warning});
      return 0;
    });
    return out;
  };
  const auto over_gossip = [](threads comm) { return gossip{comm}; };
  const outcome stable = planned(decentlam{}, over_gossip);
  CHECK(close(stable.radius, 0.948683298, 1e-9));
  CHECK(stable.warning.empty());
  const outcome slow = planned(decentlam{.momentum = 0.9999}, over_gossip);
  CHECK(close(slow.radius, std::sqrt(0.9999), 1e-9));
  CHECK(contains(slow.warning, "too close to 1"));
  const outcome unstable = planned(decentlam{}, [](threads comm) {
    return gossip{comm, topologies::exponential{}};
  });
  CHECK(close(unstable.radius, 1.155475391, 1e-9));
  CHECK(contains(unstable.warning, "it grows"));
  CHECK(planned(local_steps{sgd{}, 1}, over_gossip).radius == 0);
  CHECK(planned(decentlam{}, [](threads comm) { return ring{comm}; }).radius == 0);
}

TEST_CASE("describe: states by what factor the ranks' disagreement shrinks per round") {
  on_ranks(4, [](threads comm) {
    quadratic<fp64> model;
    toy_loader feed{4};
    trainer run{model, decentlam{}, constant{0.1}, gossip{comm}};
    const std::string message = describe(run, feed, 1);
    CHECK(contains(message, "the ranks' disagreement is multiplied by 0.948683 per round\n"));
    CHECK(contains(message, "gossip over 4 ranks, ring: spectral gap 0.666667 a round"));
    CHECK(contains(message, "decentlam, momentum 0.9"));
    trainer close{model, decentlam{.momentum = 0.999}, constant{0.1}, gossip{comm}};
    CHECK(contains(describe(close, feed, 1), "too close to 1"));
    return 0;
  });
}
