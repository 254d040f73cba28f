// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A parameter server through the trainer: the synchronous one is the mean of any reducer, the
// asynchronous one in lockstep too, and without bounds it still gets there.
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr auto steady = [](double) { return 0.1; };

// W1 of every rank after each of 12 steps, in messages of one segment where the reducer lets them.
template <class O, class Make>
std::deque<std::vector<double>> curve(const O& rule, const Make& make) {
  return on_ranks(3, [&](threads link) {
    quadratic<fp64> model{.shift = 0.5 * link.rank()};
    trainer run{model, rule, steady, make(link), {.bucket_bytes = 512}};
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

TEST_CASE("a synchronous server gives the curve of ring, to rounding") {
  const sgd rule{.momentum = 0.9};
  same_curve(curve(rule, [](threads link) { return server{link}; }),
             curve(rule, [](threads link) { return ring{link}; }));
}

TEST_CASE("an asynchronous server in lockstep gives the curve of averaged models, to rounding") {
  const local rule{sgd{.momentum = 0.9}, 2};
  const asynchronous lockstep{.softsync = 1, .bound = 0};
  same_curve(curve(rule,
                   [=](threads link) {
                     return server{link, lockstep};
                   }),
             curve(rule, [](threads link) { return ring{link}; }));
}

TEST_CASE("an asynchronous server converges, counts every push, and ends within one message") {
  for (const asynchronous& how : {asynchronous{}, asynchronous{.softsync = 2, .bound = 2},
                                  asynchronous{.staleness_aware = true}}) {
    std::vector<std::int64_t> stale;
    on_ranks(3, [&](threads link) {
      const server at{link, how};
      quadratic<fp64> model;  // all ranks agree on where to go
      trainer run{model,
                  local{sgd{.momentum = 0}, 1},
                  [](double) { return 0.02; },
                  at,
                  {.bucket_bytes = 512}};
      CHECK(run.buckets().size() == 1);
      for (int k = 0; k < 400; ++k) run.step(std::array{one_each(3)}, k);
      for (std::size_t i = 0; i < 4; ++i)
        CHECK(close(numbers(run.weights(), 0)[i], t4_centre[0][i], 0.02));
      std::array<double, 1> done{};
      agree(link, done, sum{});
      if (link.rank() == 0) stale = at.staleness();
      return 0;
    });
    CHECK(std::accumulate(stale.begin(), stale.end(), std::int64_t{0}) == 3 * 400);
    if (how.bound == 2) CHECK(stale.size() <= 1 + 3 * 3);
  }
}

TEST_CASE("a step that is not finite on one rank is skipped there, and moves nobody else") {
  const auto ends = on_ranks(2, [](threads link) {
    quadratic<fp64> model;
    if (link.rank() == 1) model.poisons = {{0, 0}, {1, 2}, {2, 1}, {3, 0}, {4, 0}};
    trainer run{model, local{sgd{.momentum = 0}, 1}, steady,
                server{link, asynchronous{.softsync = 1, .bound = 0}}};
    int applied = 0;
    for (int k = 0; k < 5; ++k) applied += run.step(std::array{one_each(2)}, k).applied;
    CHECK(applied == (link.rank() == 0 ? 5 : 0));
    return numbers(run.weights(), 0);
  });
  CHECK(ends[0] == ends[1]);
  for (std::size_t i = 0; i < 4; ++i) {  // the mean of a step and none is half a step
    double x = t4_start[0][i];
    for (int k = 0; k < 5; ++k) x -= 0.05 * t4_curvature[0][i] * (x - t4_centre[0][i]);
    CHECK(close(ends[0][i], x, 1e-12));
  }
}

TEST_CASE("weights that are adopted later are the server's too") {
  on_ranks(2, [](threads link) {
    quadratic<fp64> model;
    trainer run{model, local{sgd{.momentum = 0}, 1}, [](double) { return 0.0; },
                server{link, asynchronous{}}};
    run.step(std::array{one_each(2)}, 0);
    run.weights()[0] = 7 + link.rank();
    run.adopt_weights();
    CHECK(run.weights()[0] == 7);
    run.step(std::array{one_each(2)}, 1);
    CHECK(run.weights()[0] == 7);
    return 0;
  });
}
