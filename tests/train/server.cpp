// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A parameter server through the trainer: the synchronous one gives the mean of any exact reducer,
// the asynchronous one in lockstep as well, and without a staleness bound it converges.
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr constant steady{0.1};

// W1 of every rank after each of 12 steps, with one segment per bucket where the reducer allows it.
template <class O, class Make>
std::deque<std::vector<double>> curve(const O& optimizer, const Make& make) {
  return on_ranks(3, [&](threads comm) {
    quadratic<fp64> model{.shift = 0.5 * comm.rank()};
    trainer run{model, optimizer, steady, make(comm), {.bucket_bytes = 512}};
    std::vector<double> all;
    for (int k = 0; k < 12; ++k) {
      run.step(std::array{one_each(3)}, k);
      const std::vector<double> w = numbers(run.weights(), 0);
      all.insert(all.end(), w.begin(), w.end());
    }
    return all;
  });
}
template <class A, class B>
void same_curve(const A& a, const B& b) {
  REQUIRE(a[0].size() == 48);
  for (std::size_t rank = 0; rank < a.size(); ++rank)
    for (std::size_t i = 0; i < a[rank].size(); ++i) CHECK(close(a[rank][i], b[rank][i], 1e-12));
}

}  // namespace

TEST_CASE("server: the synchronous one gives ring's weights but for rounding") {
  const sgd optimizer{.momentum = 0.9};
  same_curve(curve(optimizer, [](threads comm) { return server{comm}; }),
             curve(optimizer, [](threads comm) { return ring{comm}; }));
}

TEST_CASE("server: the asynchronous one in lockstep averages weights as ring does") {
  const local_steps optimizer{sgd{.momentum = 0.9}, 2};
  const asynchronous lockstep{.softsync = 1, .staleness_bound = 0};
  same_curve(curve(optimizer,
                   [=](threads comm) {
                     return server{comm, lockstep};
                   }),
             curve(optimizer, [](threads comm) { return ring{comm}; }));
}

TEST_CASE("server: the asynchronous one converges and counts every push") {
  for (const asynchronous& how : {asynchronous{}, asynchronous{.softsync = 2, .staleness_bound = 2},
                                  asynchronous{.staleness_aware = true}}) {
    std::vector<std::int64_t> stale;
    on_ranks(3, [&](threads comm) {
      const server at{comm, how};
      quadratic<fp64> model;  // all ranks have the same optimum
      trainer run{
          model, local_steps{sgd{.momentum = 0}, 1}, constant{0.02}, at, {.bucket_bytes = 512}};
      CHECK(run.buckets().size() == 1);
      for (int k = 0; k < 400; ++k) run.step(std::array{one_each(3)}, k);
      for (std::size_t i = 0; i < 4; ++i)
        CHECK(close(numbers(run.weights(), 0)[i], t4_center[0][i], 0.02));
      std::array<double, 1> done{};
      allreduce_host(comm, done, reduce_op::sum);
      if (comm.rank() == 0) stale = at.staleness();
      return 0;
    });
    CHECK(std::accumulate(stale.begin(), stale.end(), std::int64_t{0}) == 3 * 400);
    if (how.staleness_bound == 2) CHECK(stale.size() <= 1 + (3 - 1) * (2 * 2 + 1));
  }
}

TEST_CASE("server: a NaN on one rank makes that rank skip its step, and no other") {
  const auto ends = on_ranks(2, [](threads comm) {
    quadratic<fp64> model;
    if (comm.rank() == 1) model.poisons = {{0, 0}, {1, 2}, {2, 1}, {3, 0}, {4, 0}};
    trainer run{model, local_steps{sgd{.momentum = 0}, 1}, steady,
                server{comm, asynchronous{.softsync = 1, .staleness_bound = 0}}};
    int applied = 0;
    for (int k = 0; k < 5; ++k) applied += run.step(std::array{one_each(2)}, k).applied;
    CHECK(applied == (comm.rank() == 0 ? 5 : 0));
    return numbers(run.weights(), 0);
  });
  CHECK(ends[0] == ends[1]);
  for (std::size_t i = 0; i < 4; ++i) {  // the mean of a step and a skipped one
    double x = t4_start[0][i];
    for (int k = 0; k < 5; ++k) x -= 0.05 * t4_curvature[0][i] * (x - t4_center[0][i]);
    CHECK(close(ends[0][i], x, 1e-12));
  }
}

TEST_CASE("server: adopt_weights() replaces the server's weights") {
  on_ranks(2, [](threads comm) {
    quadratic<fp64> model;
    trainer run{model, local_steps{sgd{.momentum = 0}, 1}, constant{0.0},
                server{comm, asynchronous{}}};
    run.step(std::array{one_each(2)}, 0);
    run.weights()[0] = 7 + comm.rank();
    run.adopt_weights();
    CHECK(run.weights()[0] == 7);
    run.step(std::array{one_each(2)}, 1);
    CHECK(run.weights()[0] == 7);
    return 0;
  });
}
