// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_adaptive.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/rmsprop.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

static_assert(OptimizerOn<rmsprop, float, cpu> && OptimizerOn<centered_rmsprop, double, cpu>);
static_assert(rmsprop::slots == 2 && centered_rmsprop::slots == 3);

TEST_CASE("rmsprop and centered_rmsprop obey the optimizer laws") {
  CHECK(optimizer_laws(rmsprop{}) == "");
  CHECK(optimizer_laws(rmsprop{.smoothing = 0, .momentum = 0.9, .weight_decay = 0.1}) == "");
  CHECK(optimizer_laws(centered_rmsprop{.momentum = 0.9, .weight_decay = 0.1}) == "");
}

TEST_CASE("centered_rmsprop divides by epsilon where the gradient is always the same") {
  // With smoothing 0 the variance is g^2 - g^2 = 0, or what rounding leaves of it.
  optimizer_fixture<centered_rmsprop> fixture({.smoothing = 0, .epsilon = 0.5});
  fixture.reset(1, 0).set_gradient(1).step(1);
  const auto w = fixture.weights(), g = fixture.gradient();
  // Contracted to a fused product it leaves 2^-53 g^2 at most, of which the root is added to
  // epsilon: |w + 2 g| < 4 |g| 2^-26.5 |g|.
  for (std::size_t i = 0; i < w.size(); ++i)
    CHECK(std::abs(w[i] + 2 * g[i]) < 1e-15 + 4.3e-8 * g[i] * g[i]);
}

TEST_CASE("rmsprop describes every option and refuses those out of range") {
  CHECK(rmsprop{.smoothing = 0.5, .momentum = 0.25, .epsilon = 2, .weight_decay = 3, .decay_on = {}}
            .describe() ==
        "rmsprop, smoothing 0.5, momentum 0.25, epsilon 2, weight decay 3; decays nothing");
  CHECK(centered_rmsprop{}.describe().starts_with("centered_rmsprop, "));
  const auto refusal = [](const rmsprop& r) { return support::error_message([&] { r.check(); }); };
  CHECK(refusal({.smoothing = 1}) == "rmsprop: smoothing is 1, but must be in [0, 1)");
  CHECK(refusal({.momentum = 1}) == "rmsprop: momentum is 1, but must be in [0, 1)");
  CHECK(refusal({.epsilon = 0}) != "");
  CHECK(refusal({.weight_decay = -1}) != "");
}
