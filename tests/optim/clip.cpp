// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, and clipping before one's own steps, through the trainer:
// tests/train/goldens_rules.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/workbench.hpp>

using namespace cordee;

static_assert(OptimizerOn<clip<sgd>, float, cpu> && OptimizerOn<clip<local<lars>>, double, cpu>);
static_assert(clip<lamb>::eager && clip<lamb>::slots == 2 && clip<sgd>::needs == agreement::exact);
static_assert(clip<sgd>::norms == when::before_accept);
static_assert(!clip<local<sgd>>::eager && clip<local<sgd>>::norms == when::before_propose);
static_assert(!clip<decentlam>::eager && clip<decentlam>::needs == agreement::mixing);
static_assert(MovesConsensus<clip<decentlam>> && !MovesConsensus<clip<sgd>>);

TEST_CASE("the factor is torch's: max_norm / (norm + 1e-6), and at most 1") {
  const clip rule{sgd{}, 2.0};
  CHECK(rule.factor(8) == 2.0 / (8 + 1e-6));
  CHECK(rule.factor(2) == 2.0 / (2 + 1e-6));
  CHECK(rule.factor(1) == 1);
  CHECK(rule.factor(0) == 1);
  CHECK(clip{sgd{}, 2.0, 0.0}.factor(2) == 1);
}

TEST_CASE("a mixing rule is clipped before it speaks") {
  workbench<clip<decentlam>> bench(clip{decentlam{.momentum = 0}, 0.5, 0.0});
  const auto before = bench.start(1).weights();
  auto moved = bench.draw_gradient(1).step(1).weights();
  double square = 0;
  for (std::size_t i = 0; i < moved.size(); ++i) square += std::pow(moved[i] - before[i], 2);
  CHECK(std::sqrt(square) == doctest::Approx(0.5).epsilon(1e-12));
}

TEST_CASE("clip refuses a limit of nothing, and asks the rule inside") {
  CHECK_THROWS_WITH_AS((clip{sgd{}, 0.0}.check()),
                       "clip: max_norm is 0, but must be finite and more than 0", misuse);
  CHECK_THROWS_AS((clip{sgd{}, std::nan("")}.check()), misuse);
  CHECK_THROWS_AS((clip{sgd{.weight_decay = -1}, 1.0}.check()), misuse);
  CHECK_NOTHROW((clip{sgd{}, 1.0}.check()));
}

TEST_CASE("clip says what it does, and to whose gradient") {
  CHECK(clip{sgd{}, 2.0}.describe() == sgd{}.describe() + "; gradients clipped to norm 2");
  CHECK(clip{local{sgd{}, 4}, 2.0}.describe() ==
        local{sgd{}, 4}.describe() + "; gradients clipped to norm 2 on each rank");
}
