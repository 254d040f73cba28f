// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_adaptive.cpp.
#include <doctest/doctest.h>

#include <cordee/optim/adam.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

static_assert(OptimizerOn<adam, float, cpu> && OptimizerOn<adam, double, cpu>);

TEST_CASE("adam obeys the optimizer laws") {
  CHECK(optimizer_laws(adam{}) == "");
  CHECK(optimizer_laws(adam{.beta1 = 0, .beta2 = 0, .weight_decay = 0.1}) == "");
}

TEST_CASE("adam without decay steps as adamw without decay, and not so with it") {
  const auto after = [](const auto& optimizer) {
    optimizer_fixture<std::remove_cvref_t<decltype(optimizer)>> fixture(optimizer);
    fixture.reset(1);
    for (std::uint64_t k = 0; k < 5; ++k) fixture.set_gradient(k).step(0.01);
    return fixture.weights();
  };
  CHECK(after(adam{}) == after(adamw{.weight_decay = 0}));
  CHECK(after(adam{.weight_decay = 0.1}) != after(adamw{.weight_decay = 0.1}));
}

TEST_CASE("adam describes every option and refuses those out of range") {
  CHECK(adam{.weight_decay = 0.5, .decay_on = {}}.describe() ==
        "adam, betas 0.9 and 0.999, epsilon 1e-08, weight decay in the gradient 0.5; decays "
        "nothing");
  const auto refusal = [](const adam& a) { return support::error_message([&] { a.check(); }); };
  CHECK(refusal({.beta1 = 1}) == "adam: beta1 is 1, but must be in [0, 1)");
  CHECK(refusal({.beta2 = -1}) == "adam: beta2 is -1, but must be in [0, 1)");
  CHECK(refusal({.epsilon = 0}) == "adam: epsilon is 0, but must be finite and more than 0");
  CHECK(refusal({.weight_decay = -1}) != "");
}
