// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <utility>

#include <doctest/doctest.h>

#include <cordee/optim/adam.hpp>
#include <cordee/optim/adamp.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/adan.hpp>
#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lans.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/lion.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/one_bit_lamb.hpp>
#include <cordee/optim/outer_momentum.hpp>
#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/optim/rmsprop.hpp>
#include <cordee/optim/rmsprop_warmup.hpp>
#include <cordee/optim/schedule_free.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/zero_one_adam.hpp>
#include <cordee/testing/optimizer_fixture.hpp>
#include <cordee/train/muon/muon.hpp>

#include "tests/support/shaped.hpp"

using namespace cordee;

namespace {

// The first NaN or infinity of the state in eight steps, or zero.
template <class O>
float nonfinite_state(optimizer_fixture<O, float>& fixture, double learning_rate, double other,
                      float start, float gradient) {
  fixture.reset(9, start);
  for (int k = 0; k < 8; ++k) {
    fixture.set_gradient(static_cast<std::uint64_t>(k), gradient);
    fixture.step(k % 3 == 2 ? other : learning_rate);
    for (const float x : fixture.state())
      if (!std::isfinite(x)) return x;
  }
  return 0;
}

}  // namespace

// No float holds 1e300, and infinity times zero is NaN.
TEST_CASE("no valid learning rate and no decay turns a finite state into NaN") {
  constexpr float large = std::numeric_limits<float>::max() / 8;
  const std::pair<double, double> learning_rates[] = {
      {1e-300, 0.1}, {1e4, 0}, {1e38, 0.1}, {1e300, 0}, {1e300, 0.1}};
  const std::pair<float, float> sizes[] = {{0, 0},     {0, large},    {1, 1}, {1, large},
                                           {large, 0}, {large, large}};  // of weights, gradients
  const auto expect_finite = [&](const auto&... optimizers) {
    const auto expect_one = [&]<class O>(const O& optimizer) {
      CAPTURE(optimizer.describe());
      optimizer_fixture<O, float> fixture(optimizer);
      for (const auto& [learning_rate, other] : learning_rates)
        for (const auto& [start, gradient] : sizes)
          CHECK_MESSAGE(nonfinite_state(fixture, learning_rate, other, start, gradient) == 0,
                        "learning rates ", learning_rate, " and ", other, ", weights of ", start,
                        ", gradients of ", gradient);
    };
    (expect_one(optimizers), ...);
  };
  for (const double decay : {1e-4, 1e10, 1e300})
    expect_finite(
        sgd{.weight_decay = decay, .nesterov = true}, velocity_sgd{.weight_decay = decay},
        lars{.weight_decay = decay}, lars_lr_outside{.weight_decay = decay},
        lars_unscaled{.weight_decay = decay}, lamb{.weight_decay = decay},
        nvlamb{.weight_decay = decay}, deepspeed_lamb{.weight_decay = decay},
        larc{.weight_decay = decay}, lars_norm_of_sum{.weight_decay = decay},
        adam{.weight_decay = decay}, centered_rmsprop{.weight_decay = decay},
        rmsprop_warmup{.weight_decay = decay}, adamw{.weight_decay = decay},
        adamp{.weight_decay = decay}, lion{.weight_decay = decay}, adan{.weight_decay = decay},
        lans{.weight_decay = decay}, schedule_free_sgd{.weight_decay = decay},
        schedule_free_adamw{.weight_decay = decay},
        support::shaped{muon{sgd{}, {.weight_decay = decay, .first_layer = "", .classifier = ""}}},
        decentlam{.weight_decay = decay}, decentlam_over{lars{.weight_decay = decay}},
        decentlam_over{lamb{.weight_decay = decay}}, decentlam_over{adamw{.weight_decay = decay}},
        qg_dmsgd{.weight_decay = decay, .nesterov = true},
        adapt_while_combine{lars{.weight_decay = decay}}, clip{sgd{.weight_decay = decay}, 0.5},
        local_steps{sgd{.weight_decay = decay}, 2},
        one_bit_adam{.weight_decay = decay, .start_epoch = 0},
        one_bit_adam{.weight_decay = decay, .start_epoch = 1e9},
        one_bit_lamb{.weight_decay = decay, .start_epoch = 0},
        one_bit_lamb{.weight_decay = decay, .start_epoch = 1e9},
        zero_one_adam{.weight_decay = decay},
        zero_one_adam{.weight_decay = decay, .var_freeze_step = 0},
        outer_momentum{local_steps{sgd{.weight_decay = decay}, 2}});
}
