// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_adaptive.cpp.
#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/rmsprop_warmup.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

static_assert(OptimizerOn<rmsprop_warmup, float, cpu> && OptimizerOn<rmsprop_warmup, double, cpu>);

TEST_CASE("rmsprop_warmup obeys the optimizer laws, before, in and after its transition") {
  for (const double center : {0.0, 1.0, 10.0})
    CHECK(optimizer_laws(rmsprop_warmup{.center = center, .period = 2}) == "");
  CHECK(optimizer_laws(rmsprop_warmup{.center = 1, .slope = 2, .weight_decay = 0}) == "");
}

TEST_CASE("the share of SGD is that of Akiba et al., in both slopes") {
  const rmsprop_warmup corrected;
  const rmsprop_warmup published{.slope = 2};
  for (const auto& [epoch, s1, s2] : {std::array{10.0, .5, .5},
                                      {11.0, .7, .9},
                                      {11.25, .75, 1.0},
                                      {12.0, .9, 1.0},
                                      {12.5, 1.0, 1.0},
                                      {90.0, 1.0, 1.0}}) {
    CHECK(std::abs(corrected.sgd_share(epoch) - s1) < 1e-15);
    CHECK(std::abs(published.sgd_share(epoch) - s2) < 1e-15);
  }
  CHECK(std::abs(corrected.sgd_share(0) - 0.00915781944436709) < 1e-16);
  CHECK(std::abs(corrected.sgd_share(9) - 0.33516002301782) < 1e-15);
  // Smooth at the center with the corrected slope: both one-sided slopes are 1 / period.
  CHECK(std::abs((corrected.sgd_share(10 + 1e-6) - corrected.sgd_share(10 - 1e-6)) / 2e-6 - 0.2) <
        1e-6);
}

TEST_CASE("after the transition rmsprop_warmup steps as sgd") {
  optimizer_fixture<rmsprop_warmup> warm({.center = 0, .period = 1e-3, .weight_decay = 0});
  optimizer_fixture<sgd> plain(sgd{});
  warm.reset(1).set_gradient(9, 0).step(0);  // at epoch 0, with no gradient and no rate
  plain.reset(1).set_gradient(9, 0).step(0);
  for (std::uint64_t k = 0; k < 4; ++k) {
    warm.set_gradient(k).step(0.1);
    plain.set_gradient(k).step(0.1);
  }
  const auto a = warm.weights(), b = plain.weights();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-14);
}

TEST_CASE("rmsprop_warmup describes every option and refuses those out of range") {
  CHECK(rmsprop_warmup{}.describe() ==
        "rmsprop_warmup, from RMSprop at learning rate 0.0003 to SGD around epoch 10, period 5, "
        "momentum 0.9, smoothing 0.99, epsilon 1e-08, weight decay 0.0001");
  CHECK(support::contains(rmsprop_warmup{.slope = 2}.describe(), "period 5, slope 2, momentum"));
  const auto refusal = [](const rmsprop_warmup& r) {
    return support::error_message([&] { r.check(); });
  };
  CHECK(refusal({.momentum = 1}) != "");
  CHECK(refusal({.smoothing = 1}) != "");
  CHECK(refusal({.epsilon = 0}) != "");
  CHECK(refusal({.rms_learning_rate = -1}) != "");
  CHECK(refusal({.center = -1}) != "");
  CHECK(refusal({.period = 0}) ==
        "rmsprop_warmup: period is 0, but must be finite and more than 0");
  CHECK(refusal({.slope = 0}) != "");
  CHECK(refusal({.weight_decay = -1}) != "");
}
