// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_mixing.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/adamw.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/direction.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>

using namespace cordee;
using namespace cordee::detail::optim;

static_assert(direction_slots<sgd> == 0 && direction_slots<lamb> == 1);
static_assert(DirectionOn<lars_unscaled, float, cpu> && DirectionOn<adamw, double, cpu> &&
              DirectionOn<deepspeed_lamb, float, cpu> && !DirectionOn<decentlam, float, cpu>);

TEST_CASE("the momentum of a direction is momentum or beta1, with the optimizer's form") {
  CHECK(direction_momentum(sgd{.momentum = 0.5, .nesterov = true}).momentum == 0.5);
  CHECK(direction_momentum(sgd{.momentum = 0.5, .nesterov = true}).nesterov);
  CHECK(direction_momentum(lamb{.beta1 = 0.75}).momentum == 0.75);
  CHECK(!direction_momentum(lamb{}).nesterov);
}

TEST_CASE("decentlam_over obeys the optimizer laws over every kind of direction") {
  constexpr optimizer_law_options lr_inside{.zero_learning_rate_moves_nothing = false};
  CHECK(optimizer_laws(decentlam_over{lamb{}}, lr_inside) == "");
  CHECK(optimizer_laws(decentlam_over{deepspeed_lamb{}}, lr_inside) == "");
  CHECK(optimizer_laws(decentlam_over{adamw{.decay_on = cordee::detail::core::trainable}},
                       lr_inside) == "");
  CHECK(optimizer_laws(decentlam_over{lars_norm_of_sum{}}, lr_inside) == "");
}

TEST_CASE("decentlam_over{lamb} without momentum steps on one rank as lamb without momentum") {
  const lamb plain{.beta1 = 0, .weight_decay = 0.1};
  optimizer_fixture<lamb> a(plain);
  optimizer_fixture<decentlam_over<lamb>> b(decentlam_over{plain});
  a.reset(1);
  b.reset(1);
  for (std::uint64_t k = 0; k < 6; ++k) {
    a.set_gradient(k).step(0.1);
    b.set_gradient(k).step(0.1);
  }
  // w - (w - (w - lr d)) rounds three times where w - lr d rounds once: 2^-52 a step.
  const auto x = a.weights(), y = b.weights();
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(std::abs(x[i] - y[i]) < 1e-13 * std::max(1.0, std::abs(x[i])));
}
