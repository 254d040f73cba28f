// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/gossip.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

double spread(int rank, int ranks) { return 0.3 * (rank - 0.5 * (ranks - 1)); }

// What the trainer says when it is made; empty if it is content.
template <class O, class G>
std::string refusal(const O& rule, const G& graph, int ranks, trainer_options options = {}) {
  return complaint([&] {
    threads::launch(
        ranks,
        [&](threads link) {
          quadratic<fp32> model;
          trainer run{model, rule, constant{0.1}, gossip{link, graph}, options};
        },
        patient);
  });
}

// Weights of every rank after some steps on T4 with data of their own.
template <class O, class Reduce>
auto trained(int ranks, const O& rule, const Reduce& reduce, const std::vector<double>& rate) {
  return on_ranks(ranks, [&](threads link) {
    quadratic<fp64> model{.shift = spread(link.rank(), ranks)};
    trainer run{model, rule, rates(rate), reduce(link), {.bucket_bytes = 512}};
    for (std::size_t k = 0; k < rate.size(); ++k)
      run.step(std::array{one_each(ranks)}, static_cast<double>(k));
    return std::vector<double>(run.weights().begin(), run.weights().begin() + 256);
  });
}

}  // namespace

TEST_CASE("momentum that the graph does not bear is refused with its radius and what would help") {
  const std::string said = refusal(decentlam{}, exponential{}, 8);
  CAPTURE(said);
  CHECK(contains(said, "with momentum 0.9 (heavy ball)"));
  CHECK(contains(said, "multiplied by 1.2375 a round"));
  CHECK(contains(said, "a momentum below 0.519816"));
  CHECK(contains(said, "lazy{graph, theta} with theta below 0.0470"));
  CHECK(contains(said, "Nesterov's form, whose radius is 0.989891"));
  CHECK(contains(said, "symmetric_exponential has radius 0.948683"));

  const std::string cube = refusal(decentlam{.nesterov = true}, hypercube{}, 8);
  CAPTURE(cube);
  CHECK(contains(cube, "with momentum 0.9 (Nesterov)"));
  CHECK(contains(cube, "momentum without Nesterov's form, whose radius is 0.948683"));

  CHECK(contains(refusal(decentlam_over{lars{}}, one_peer{}, 4), "multiplied by 1.0795 a round"));
  CHECK(contains(refusal(decentlam{}, random_matching{}, 4), "multiplied by 1.05399 a round"));
}

TEST_CASE(
    "what survives is let through: every remedy that a refusal names, and rules that move none") {
  CHECK(refusal(decentlam{}, cycle{}, 8).empty());
  CHECK(refusal(decentlam{.momentum = 0.5198}, exponential{}, 8).empty());
  CHECK(refusal(decentlam{}, lazy{exponential{}, 0.047}, 8).empty());
  CHECK(refusal(decentlam{.nesterov = true}, exponential{}, 8).empty());
  CHECK(refusal(decentlam{}, symmetric_exponential{}, 8).empty());
  CHECK(refusal(decentlam{}, hypercube{}, 8).empty());
  CHECK(refusal(local{sgd{}, 1}, exponential{}, 8).empty());
  CHECK(refusal(decentlam{}, exponential{}, 1).empty());
  CHECK(refusal(decentlam{}, exponential{}, 8, {.check_stability = false}).empty());
}

TEST_CASE("unchecked, the disagreement grows as was foretold") {
  // 1e-4 of the curvature, at most 4, moves the radius by about as much. The largest modes are
  // complex and come in one pair, so the distance beats within a factor of a few: over 200 rounds,
  // log(10) / 200, hence the hundredth and a quarter.
  const auto growth = [](const auto& rule, const auto& graph, int ranks) {
    return on_ranks(ranks, [&](threads link) {
      quadratic<fp64> model{.shift = std::sin(1 + 3.7 * link.rank() * link.rank())};  // all modes
      trainer run{model, rule, constant{1e-4}, gossip{link, graph}, {.check_stability = false}};
      double early = 0;
      for (int k = 0; k < 240; ++k) {
        if (k == 40) early = run.consensus_distance();
        run.step(std::array{one_each(ranks)}, k);
      }
      return std::pow(run.consensus_distance() / early, 1.0 / 200);
    });
  };
  for (const double g : growth(decentlam{}, exponential{}, 4)) CHECK(close(g, 1.155475391, 0.0125));
  for (const double g : growth(decentlam{}, exponential{}, 8)) CHECK(close(g, 1.237497409, 0.0125));
  for (const double g : growth(decentlam{}, one_peer{}, 8)) CHECK(close(g, 1.113510233, 0.0125));
  for (const double g : growth(decentlam{.nesterov = true}, hypercube{}, 8))
    CHECK(close(g, 1.296964111, 0.0125));
}

TEST_CASE("the distance from consensus is every rank's, of the trained weights alone") {
  on_ranks(3, [](threads link) {
    quadratic<fp64> model{.shift = spread(link.rank(), 3)};
    trainer run{model, local{sgd{}, 9}, constant{0.1}, gossip{link}};
    CHECK(run.consensus_distance() < 1e-15);
    run.statistics()[0] = link.rank();
    CHECK(run.consensus_distance() < 1e-15);
    run.weights()[1] += 3 * link.rank();
    CHECK(close(run.consensus_distance(), std::sqrt(6.0), 1e-14));
    return 0;
  });
}

TEST_CASE("decentlam over an exact mean equals velocity_sgd without correction under any rates") {
  const auto over_ring = [](threads link) { return ring{link}; };
  const std::vector<double> any{0.1, 0.0, 0.02, 0.3, 2e-11, 0.1, 0.05, 0.05};
  const std::vector<double> same(12, 0.1);
  for (const int ranks : rank_counts)
    for (const bool nesterov : {false, true}) {
      const decentlam rule{.momentum = 0.8, .weight_decay = 0.01, .nesterov = nesterov};
      const velocity_sgd v{
          .momentum = 0.8, .weight_decay = 0.01, .nesterov = nesterov, .correction = false};
      const sgd p{.momentum = 0.8, .weight_decay = 0.01, .nesterov = nesterov};
      const auto equal = [&](const auto& a, const auto& b) {
        for (std::size_t r = 0; r < a.size(); ++r)
          for (std::size_t i = 0; i < 256; ++i) CHECK(close(a[r][i], b[r][i], 1e-13));
      };
      equal(trained(ranks, rule, over_ring, any), trained(ranks, v, over_ring, any));
      equal(trained(ranks, rule, over_ring, same), trained(ranks, p, over_ring, same));
      const auto over_all = [](threads link) { return gossip{link, complete{}}; };
      if (ranks > 1) equal(trained(ranks, rule, over_all, any), trained(ranks, v, over_ring, any));
    }
}

TEST_CASE("first rates of nothing and of almost nothing leave everything finite") {
  for (const double start : {0.0, 2e-11})
    for (const auto& w : trained(4, decentlam{.corrected = true},
                                 [](threads link) {
                                   return gossip{link, symmetric_exponential{}};
                                 },
                                 {start, start, 0.1, 0.1, 0.0, 0.1}))
      for (const double x : w) CHECK(std::abs(x) < 10);
}

TEST_CASE("decentlam_over{lars}: a bucket that is not finite counts as zero and poisons nobody") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    on_ranks(3, [&](threads link) {
      quadratic<fp64> model{.shift = spread(link.rank(), 3)};
      if (link.rank() == 1) model.poisons = {{1, 2, bad}, {2, 0, bad}};
      trainer run{model,
                  decentlam_over{lars{.trust = 0.02}},
                  constant{0.5},
                  gossip{link},
                  {.bucket_bytes = 512}};
      for (int k = 0; k < 5; ++k)
        CHECK(run.step(std::array{one_each(3)}, k).zeroed ==
              (link.rank() == 1 && (k == 1 || k == 2) ? 1 : 0));
      for (std::size_t i = 0; i < 256; ++i) CHECK(std::isfinite(run.weights()[i]));
      return 0;
    });
}

TEST_CASE("decentlam converges on graphs that bear it, and ranks end near each other") {
  for (const auto& [distance, optimum] : on_ranks(8, [](threads link) {
         quadratic<fp64> model{.shift = spread(link.rank(), 8)};
         trainer run{model, decentlam{.momentum = 0.5}, constant{0.02}, gossip{link, one_peer{}}};
         for (int k = 0; k < 800; ++k) run.step(std::array{one_each(8)}, k);
         const double distance = run.consensus_distance();
         mean(link, cpu{1}, run.weights(), cpu::stream{});
         return std::pair{distance, run.weights()[0]};
       })) {
    CHECK(distance < 0.2);
    CHECK(close(optimum, 0.4, 0.01));
  }
}

TEST_CASE("listeners are told the radius, before the first step, where there is one") {
  struct hears {
    double* radius;
    void begin(const run_plan& p) { *radius = p.radius; }
  };
  const auto told = [](const auto& rule, const auto& reduce) {
    double radius = -1;
    on_ranks(4, [&](threads link) {
      quadratic<fp64> model;
      toy_feed feed{4};
      trainer run{model, rule, constant{0.0}, reduce(link), {.check_stability = false}};
      run.fit(feed, 0.1, hears{&radius});
      return 0;
    });
    return radius;
  };
  const auto over_cycle = [](threads link) { return gossip{link}; };
  CHECK(close(told(decentlam{}, over_cycle), 0.948683298, 1e-9));
  CHECK(close(told(decentlam{.momentum = 0.9999}, over_cycle), std::sqrt(0.9999), 1e-9));
  CHECK(close(told(decentlam{},
                   [](threads link) {
                     return gossip{link, exponential{}};
                   }),
              1.155475391, 1e-9));
  CHECK(told(local{sgd{}, 1}, over_cycle) == 0);
  CHECK(told(decentlam{}, [](threads link) { return ring{link}; }) == 0);
}

TEST_CASE("describe says how fast the ranks' disagreement shrinks") {
  on_ranks(4, [](threads link) {
    quadratic<fp64> model;
    toy_feed feed{4};
    trainer run{model, decentlam{}, constant{0.1}, gossip{link}};
    const std::string said = describe(run, feed, 1);
    CHECK(contains(said, "the ranks' disagreement is multiplied by 0.948683 a round\n"));
    CHECK(contains(said, "gossip over 4 ranks, cycle: spectral gap 0.666667 a round"));
    CHECK(contains(said, "decentlam, momentum 0.9"));
    trainer close{model, decentlam{.momentum = 0.999}, constant{0.1}, gossip{link}};
    CHECK(contains(describe(close, feed, 1), "too near to 1"));
    return 0;
  });
}
