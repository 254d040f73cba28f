// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_adaptive.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/lans.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

static_assert(OptimizerOn<lans, float, cpu> && OptimizerOn<lans, double, cpu>);
static_assert(lans::slots == 2);

TEST_CASE("lans obeys the optimizer laws") {
  CHECK(optimizer_laws(lans{}) == "");
  CHECK(optimizer_laws(lans{.beta1 = 0, .beta2 = 0, .weight_decay = 0}) == "");
}

TEST_CASE("lans does not depend on the gradient's size, from the smallest to the largest") {
  const auto after = [](float size) {
    optimizer_fixture<lans, float> fixture(lans{});
    fixture.reset(1);
    for (std::uint64_t t = 1; t <= 3; ++t) fixture.set_gradient(t, size).step(0.1);
    return fixture.weights();
  };
  // Powers of two change no rounding of g / |g| but that of the norm in double.
  const auto expected = after(1);
  for (const float size : {0x1p-60f, 0x1p60f}) {
    const auto w = after(size);
    float max_error = 0;
    for (std::size_t i = 0; i < w.size(); ++i)
      max_error = std::max(max_error, std::abs(w[i] - expected[i]));
    CAPTURE(size);
    CHECK(max_error < 1e-6f);  // of weights below 8
  }
}

TEST_CASE("lans: a step is no longer than lr times the weights' norm, per segment") {
  optimizer_fixture<lans> fixture(lans{});
  fixture.reset(3);
  const auto before = fixture.weights();
  fixture.set_gradient(4).step(0.25);
  const auto after = fixture.weights();
  for (const segment& s : quadratic_table) {
    if (s.kind == kind::statistic) continue;
    double weight = 0, step = 0;
    for (std::size_t i = s.offset; i < s.end(); ++i) {
      weight += before[i] * before[i];
      step += (after[i] - before[i]) * (after[i] - before[i]);
    }
    // The first step's two directions are the same: their sum is as long as both together.
    CAPTURE(s.name);
    if (weight > 0) CHECK(std::abs(std::sqrt(step / weight) - 0.25) < 1e-12);
  }
}

TEST_CASE("lans describes every option and refuses those out of range") {
  CHECK(lans{.beta1 = 0.5, .beta2 = 0.25, .epsilon = 2, .weight_decay = 3, .decay_on = {}}
            .describe() ==
        "lans, betas 0.5 and 0.25, epsilon 2, weight decay 3 inside the trust ratios, which adapt "
        "every segment; decays nothing");
  CHECK(lans{.adapt_on = {}}.describe().ends_with("inside the trust ratios; adapts nothing"));
  const auto refusal = [](const lans& o) { return support::error_message([&] { o.check(); }); };
  CHECK(refusal({.beta1 = 1}) == "lans: beta1 is 1, but must be in [0, 1)");
  CHECK(refusal({.beta2 = 1}) == "lans: beta2 is 1, but must be in [0, 1)");
  CHECK(refusal({.epsilon = 0}) != "");
  CHECK(refusal({.weight_decay = -1}) != "");
}
