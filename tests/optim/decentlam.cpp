// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors are reached through the trainer: tests/train/goldens_decentralised.cpp.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/support/planes.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(OptimizerOn<decentlam, float, cpu> && OptimizerOn<decentlam_over<lars>, double, cpu>);
static_assert(MovesConsensus<decentlam> && MovesConsensus<decentlam_over<sgd>> &&
              !MovesConsensus<sgd>);
static_assert(DirectsOn<sgd, float, cpu> && DirectsOn<velocity_sgd, float, cpu> &&
              DirectsOn<lars, double, cpu> && !DirectsOn<decentlam, float, cpu>);
static_assert(decentlam_over<lars>::norms == when::before_propose &&
              decentlam_over<sgd>::norms == when::never);

namespace {

// One rank: what is said comes back as it was said.
template <class O>
void alone(planes_of<O>& p, double rate) {
  p.propose(rate);
  p.step(rate);
}

double pull(int step, double w) { return std::sin(step) + w; }

}  // namespace

TEST_CASE("decentlam alone equals velocity_sgd without correction under any rates") {
  for (const bool nesterov : {false, true}) {
    planes_of<decentlam> d{{.momentum = 0.8, .weight_decay = 0.1, .nesterov = nesterov}};
    planes_of<velocity_sgd> v{
        {.momentum = 0.8, .weight_decay = 0.1, .nesterov = nesterov, .correction = false}};
    d.weights[1] = v.weights[1] = d.weights[64] = v.weights[64] = 1;
    for (int k = 0; k < 60; ++k) {
      const double rate = std::array{0.1, 0.0, 0.7, 0.001, 0.3}[static_cast<std::size_t>(k % 5)];
      for (const std::size_t at : {1u, 64u}) {
        d.grads[at] = pull(k, d.weights[at]);
        v.grads[at] = pull(k, v.weights[at]);
      }
      alone(d, rate);
      v.step(rate);
      for (const std::size_t at : {1u, 64u}) CHECK(std::abs(d.weights[at] - v.weights[at]) < 1e-13);
    }
  }
}

TEST_CASE(
    "decentlam alone equals sgd while the rate is constant, and if corrected under any rates") {
  for (const bool nesterov : {false, true})
    for (const bool changes : {false, true}) {
      planes_of<decentlam> d{{.momentum = 0.8, .nesterov = nesterov, .corrected = changes}};
      planes_of<sgd> p{{.momentum = 0.8, .nesterov = nesterov}};
      d.weights[1] = p.weights[1] = 1;
      for (int k = 0; k < 60; ++k) {
        const double rate = changes ? 0.1 + 0.05 * (k % 3) : 0.1;
        d.grads[1] = pull(k, d.weights[1]);
        p.grads[1] = pull(k, p.weights[1]);
        alone(d, rate);
        p.step(rate);
        CHECK(std::abs(d.weights[1] - p.weights[1]) < 1e-12);
      }
    }
}

TEST_CASE("decentlam stays finite where warm-up starts: at rate 0 and at 2e-11") {
  for (const bool corrected : {false, true})
    for (const double start : {0.0, 2e-11}) {
      planes_of<decentlam> d{{.corrected = corrected}};
      for (const double rate : {start, start, 0.1, 0.0, 0.1, 1e-8, 0.2}) {
        d.grads[0] = 1 + d.weights[0];
        alone(d, rate);
        CHECK(std::isfinite(d.weights[0]));
        CHECK(std::abs(d.weights[0]) < 3);
      }
      CHECK(d.weights[0] != 0);
    }
}

TEST_CASE_TEMPLATE("decentlam: zero weight and zero gradient stay zero, and so does the padding", O,
                   decentlam, decentlam_over<lars>) {
  planes_of<O> p{O{}};
  for (int k = 0; k < 3; ++k) alone(p, 1);
  CHECK(p.weights == std::vector<double>(256));
  std::fill(p.grads.begin(), p.grads.end(), 0);
  p.grads[0] = p.grads[64] = p.grads[192] = 1;
  alone(p, 1);
  CHECK(p.weights[0] != 0);
  CHECK(p.padding_is_zero());
}

TEST_CASE("decentlam: decay acts on the kinds in `decays`, by default on weights alone") {
  planes_of<decentlam> p{{.momentum = 0, .weight_decay = 0.5}};
  for (const segment& s : four_kinds) p.weights[s.offset] = 1;
  alone(p, 1);
  CHECK(p.weights[0] == 0.5);
  for (const std::size_t at : {64u, 128u, 192u}) CHECK(p.weights[at] == 1);
}

TEST_CASE("decentlam_over{lars} alone takes the steps that lars takes") {
  const lars rule{.momentum = 0.9, .weight_decay = 0.01, .trust = 0.02};
  planes_of<decentlam_over<lars>> d{{rule}};
  planes_of<lars> l{rule};
  for (const segment& s : four_kinds) d.weights[s.offset] = l.weights[s.offset] = 2;
  for (int k = 0; k < 30; ++k) {
    for (const segment& s : four_kinds) {
      d.grads[s.offset] = pull(k, d.weights[s.offset]);
      l.grads[s.offset] = pull(k, l.weights[s.offset]);
    }
    alone(d, 0.3 + 0.1 * (k % 3));
    l.step(0.3 + 0.1 * (k % 3));
    for (const segment& s : four_kinds)
      CHECK(close(d.weights[s.offset], l.weights[s.offset], 1e-12));
  }
}

TEST_CASE("lars: a gradient that is not finite and counts as zero has the ratio of a zero") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK(lars{}.ratio(1, bad, 0.1) == lars{}.ratio(1, 0, 0.1));
}
