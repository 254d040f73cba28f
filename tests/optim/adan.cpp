// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_adaptive.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/adan.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

static_assert(OptimizerOn<adan, float, cpu> && OptimizerOn<adan, double, cpu>);
static_assert(adan::slots == 4);

TEST_CASE("adan obeys the optimizer laws") {
  CHECK(optimizer_laws(adan{}) == "");
  CHECK(optimizer_laws(adan{.beta1 = 0, .beta2 = 0, .beta3 = 0, .weight_decay = 0.1}) == "");
}

TEST_CASE("adan: a constant gradient has no change, so every step has the learning rate's length") {
  for (const float size : {1e-3f, 1.0f, 1e18f, 1e25f, 1e38f}) {
    CAPTURE(size);
    optimizer_fixture<adan, float> fixture(adan{.epsilon = 1e-12});
    fixture.reset(1, 0);
    for (int t = 1; t <= 4; ++t) {
      fixture.set_gradient(2, size).step(0.25);
      // m^ = g and n^ = g^2; some 16 roundings a step, the corrections' at betas near 1 included
      CHECK(std::abs(fixture.weights()[0]) == relative(0.25f * static_cast<float>(t), 1e-5f));
    }
  }
}

TEST_CASE("adan describes every option and refuses those out of range") {
  CHECK(adan{.beta1 = 0.5,
             .beta2 = 0.25,
             .beta3 = 0.75,
             .epsilon = 2,
             .weight_decay = 3,
             .decay_on = {}}
            .describe() ==
        "adan, betas 0.5, 0.25 and 0.75, epsilon 2, decoupled weight decay 3; decays nothing");
  const auto refusal = [](const adan& o) { return support::error_message([&] { o.check(); }); };
  CHECK(refusal({.beta1 = 1}) == "adan: beta1 is 1, but must be in [0, 1)");
  CHECK(refusal({.beta2 = 1}) == "adan: beta2 is 1, but must be in [0, 1)");
  CHECK(refusal({.beta3 = 1}) == "adan: beta3 is 1, but must be in [0, 1)");
  CHECK(refusal({.epsilon = 0}) != "");
  CHECK(refusal({.weight_decay = -1}) != "");
}
