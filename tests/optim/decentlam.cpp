// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_decentralized.cpp.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/support/planes.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::optim;
using namespace support;

static_assert(OptimizerOn<decentlam, float, cpu> && OptimizerOn<decentlam_over<lars>, double, cpu>);
static_assert(HasMomentumForm<decentlam> && HasMomentumForm<decentlam_over<sgd>> &&
              !HasMomentumForm<sgd>);
static_assert(DirectionOn<sgd, float, cpu> && DirectionOn<velocity_sgd, float, cpu> &&
              DirectionOn<lars, double, cpu> && !DirectionOn<decentlam, float, cpu>);
static_assert(decentlam_over<lars>::norms == norms_needed::before_propose &&
              decentlam_over<sgd>::norms == norms_needed::never);

namespace {

// A step of one rank, whose proposal is mixed with nothing.
template <class O>
void solo_step(planes_of<O>& p, double learning_rate) {
  p.propose(learning_rate);
  p.step(learning_rate);
}

double gradient(int step, double w) { return std::sin(step) + w; }

}  // namespace

TEST_CASE("decentlam on one rank equals velocity_sgd under all learning rates, corrected or not") {
  for (const bool nesterov : {false, true})
    for (const bool correction : {false, true}) {
      planes_of<decentlam> d{{.momentum = 0.8,
                              .weight_decay = 0.1,
                              .nesterov = nesterov,
                              .momentum_correction = correction}};
      planes_of<velocity_sgd> v{{.momentum = 0.8,
                                 .weight_decay = 0.1,
                                 .nesterov = nesterov,
                                 .momentum_correction = correction}};
      d.weights[1] = v.weights[1] = d.weights[64] = v.weights[64] = 1;
      for (int k = 0; k < 60; ++k) {
        const double learning_rate =
            std::array{0.1, 0.0, 0.7, 0.001, 0.3}[static_cast<std::size_t>(k % 5)];
        for (const std::size_t i : {1u, 64u}) {
          d.grads[i] = gradient(k, d.weights[i]);
          v.grads[i] = gradient(k, v.weights[i]);
        }
        solo_step(d, learning_rate);
        v.step(learning_rate);
        for (const std::size_t i : {1u, 64u}) CHECK(std::abs(d.weights[i] - v.weights[i]) < 1e-13);
      }
    }
}

TEST_CASE("decentlam on one rank equals sgd at all learning rates, uncorrected at a constant one") {
  for (const bool nesterov : {false, true})
    for (const bool changes : {false, true}) {
      planes_of<decentlam> d{
          {.momentum = 0.8, .nesterov = nesterov, .momentum_correction = changes}};
      planes_of<sgd> p{{.momentum = 0.8, .nesterov = nesterov}};
      d.weights[1] = p.weights[1] = 1;
      for (int k = 0; k < 60; ++k) {
        const double learning_rate = changes ? 0.1 + 0.05 * (k % 3) : 0.1;
        d.grads[1] = gradient(k, d.weights[1]);
        p.grads[1] = gradient(k, p.weights[1]);
        solo_step(d, learning_rate);
        p.step(learning_rate);
        CHECK(std::abs(d.weights[1] - p.weights[1]) < 1e-12);
      }
    }
}

// Before the drop the momentum has met one gradient alone: u = 10 lr g. Without correction the step
// after it is 9.1 times the published one, 0.9 * 10 * 0.1 + 0.1 for 0.9 * 1 + 0.1.
TEST_CASE_TEMPLATE("the step after a tenfold drop of the learning rate is the published one", O,
                   decentlam, decentlam_over<sgd>, qg_dmsgd, velocity_sgd) {
  planes_of<O> p{O{}};
  const auto step = [&](double learning_rate) {
    const double before = p.weights[0];
    p.grads[0] = 1;
    if constexpr (O::needs == agreement::mixing) p.propose(learning_rate);
    p.step(learning_rate);
    return before - p.weights[0];
  };
  for (int k = 0; k < 4000; ++k) step(0.01);  // qg_dmsgd keeps 0.99 of u a step
  CHECK(close(step(0.01), 0.1, 1e-11));
  CHECK(close(step(0.001), 0.01, 1e-11));
}

TEST_CASE("decentlam stays finite at the learning rates where warm-up starts, 0 and 2e-11") {
  for (const bool momentum_correction : {false, true})
    for (const double start : {0.0, 2e-11}) {
      planes_of<decentlam> d{{.momentum_correction = momentum_correction}};
      for (const double learning_rate : {start, start, 0.1, 0.0, 0.1, 1e-8, 0.2}) {
        d.grads[0] = 1 + d.weights[0];
        solo_step(d, learning_rate);
        CHECK(std::isfinite(d.weights[0]));
        CHECK(std::abs(d.weights[0]) < 3);
      }
      CHECK(d.weights[0] != 0);
    }
}

TEST_CASE_TEMPLATE("decentlam: zero weights with zero gradients stay zero, also the padding", O,
                   decentlam, decentlam_over<lars>) {
  planes_of<O> p{O{}};
  for (int k = 0; k < 3; ++k) solo_step(p, 1);
  CHECK(p.weights == std::vector<double>(256));
  std::fill(p.grads.begin(), p.grads.end(), 0);
  p.grads[0] = p.grads[64] = p.grads[192] = 1;
  solo_step(p, 1);
  CHECK(p.weights[0] != 0);
  CHECK(p.padding_is_zero());
}

TEST_CASE("decentlam: decay acts on the kinds in decay_on, by default on weights alone") {
  planes_of<decentlam> p{{.momentum = 0, .weight_decay = 0.5}};
  for (const segment& s : four_kinds) p.weights[s.offset] = 1;
  solo_step(p, 1);
  CHECK(p.weights[0] == 0.5);
  for (const std::size_t i : {64u, 128u, 192u}) CHECK(p.weights[i] == 1);
}

TEST_CASE("decentlam_over{lars}, not corrected, equals lars on one rank") {
  const lars optimizer{.momentum = 0.9, .weight_decay = 0.01, .trust_coefficient = 0.02};
  planes_of<decentlam_over<lars>> d{{optimizer, false}};
  planes_of<lars> l{optimizer};
  for (const segment& s : four_kinds) d.weights[s.offset] = l.weights[s.offset] = 2;
  for (int k = 0; k < 30; ++k) {
    for (const segment& s : four_kinds) {
      d.grads[s.offset] = gradient(k, d.weights[s.offset]);
      l.grads[s.offset] = gradient(k, l.weights[s.offset]);
    }
    solo_step(d, 0.3 + 0.1 * (k % 3));
    l.step(0.3 + 0.1 * (k % 3));
    for (const segment& s : four_kinds)
      CHECK(close(d.weights[s.offset], l.weights[s.offset], 1e-12));
  }
}

TEST_CASE(
    "lars: the ratio of a gradient that is not finite, which counts as zero, is that of zero") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK(lars{}.ratio(1, bad, 0.1) == lars{}.ratio(1, 0, 0.1));
}
