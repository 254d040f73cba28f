// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_adaptive.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/lion.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

static_assert(OptimizerOn<lion, float, cpu> && OptimizerOn<lion, double, cpu>);
static_assert(lion::slots == 1);

TEST_CASE("lion obeys the optimizer laws") {
  CHECK(optimizer_laws(lion{}) == "");
  CHECK(optimizer_laws(lion{.beta1 = 0, .beta2 = 0, .weight_decay = 0.1}) == "");
}

TEST_CASE("lion: every number moves by the learning rate, whatever the size of its gradient") {
  for (const float size : {1e-30f, 1.0f, 1e30f}) {
    CAPTURE(size);
    optimizer_fixture<lion, float> fixture(lion{});
    fixture.reset(1, 0).set_gradient(2, size, true).step(0.25);
    const auto w = fixture.weights(), g = fixture.gradient();
    for (std::size_t i = 0; i < w.size(); ++i)
      CHECK(w[i] == (g[i] > 0 ? -0.25f : g[i] < 0 ? 0.25f : 0.0f));
  }
}

TEST_CASE("lion: the direction has beta1, the momentum beta2") {
  optimizer_fixture<lion> fixture({.beta1 = 0.5, .beta2 = 0.75});
  fixture.reset(1, 0);
  std::vector<double> w = fixture.weights(), m(w.size());
  for (int t = 1; t <= 6; ++t) {
    const auto g = fixture.set_gradient(static_cast<std::uint64_t>(t)).gradient();
    fixture.step(0.5);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double u = 0.5 * m[i] + 0.5 * g[i];
      w[i] -= u > 0 ? 0.5 : u < 0 ? -0.5 : 0;
      m[i] = 0.75 * m[i] + 0.25 * g[i];
    }
    CHECK(fixture.weights() == w);  // multiples of 1/2, with betas that are powers of two
  }
}

TEST_CASE("lion describes every option and refuses those out of range") {
  CHECK(lion{.beta1 = 0.5, .beta2 = 0.25, .weight_decay = 3, .decay_on = {}}.describe() ==
        "lion, betas 0.5 and 0.25, decoupled weight decay 3; decays nothing");
  const auto refusal = [](const lion& o) { return support::error_message([&] { o.check(); }); };
  CHECK(refusal({.beta1 = 1}) == "lion: beta1 is 1, but must be in [0, 1)");
  CHECK(refusal({.beta2 = -1}) == "lion: beta2 is -1, but must be in [0, 1)");
  CHECK(refusal({.weight_decay = -1}) != "");
}
