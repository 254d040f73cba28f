// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every optimizer's kernels in single precision.
#include <doctest/doctest.h>

#include <cordee/device/cuda.cuh>
#include <cordee/ops/gpu/segmented.hpp>

#include "tests/support/optimizer_on_device.hpp"

using namespace cordee;

static_assert(OptimizerOn<sgd, float, gpu> && OptimizerOn<clip<local_steps<lars>>, float, gpu>);

namespace {

template <class O>
void check(const O& optimizer) {
  support::expect_same_as_cpu<float>(optimizer, gpu{});
}

}  // namespace

TEST_CASE("optimizers on a GPU: sgd, velocity_sgd, decentlam") {
  check(sgd{.weight_decay = 1e-2, .nesterov = true});
  check(velocity_sgd{.weight_decay = 1e-2});
  check(decentlam{.weight_decay = 1e-2});
  check(decentlam_over{sgd{.weight_decay = 1e-2}});
  check(decentlam_over{lamb{}});
  check(adapt_while_combine{sgd{.weight_decay = 1e-2}});
  check(qg_dmsgd{.weight_decay = 1e-2, .nesterov = true});
}

TEST_CASE("optimizers on a GPU: LARS in its three forms, and its direction") {
  check(lars{.weight_decay = 1e-2, .nesterov = true});
  check(lars_lr_outside{.trust_coefficient = 0.1});
  check(lars_unscaled{.trust_coefficient = 0.1, .limits = {.ratio = 0.5, .element = 0.01}});
  check(decentlam_over{lars{.weight_decay = 1e-2}});
}

TEST_CASE("optimizers on a GPU: adam, rmsprop, rmsprop_warmup, LARC, the norm of the sum") {
  check(adam{.weight_decay = 0.1});
  // Where gradient and decay cancel, a fused multiplication's other rounding, 1e-9, is magnified by
  // up to 1 / epsilon, and 3.4 times in four steps.
  check(rmsprop{.momentum = 0.9, .epsilon = 1e-2, .weight_decay = 0.1});
  check(centered_rmsprop{});
  check(rmsprop_warmup{.center = 2, .period = 2});
  check(larc{.weight_decay = 1e-2});
  check(lars_norm_of_sum{.weight_decay = 0.1});
}

TEST_CASE("optimizers on a GPU: adamw, lamb and its variants, lion, adan, lans") {
  check(adamw{.weight_decay = 0.1});
  check(lamb{});
  check(nvlamb{.weight_decay = 0.1});
  check(deepspeed_lamb{});
  check(lambc{.weight_decay = 0.1});
  check(lion{.weight_decay = 0.1});
  check(adan{.weight_decay = 0.1});
  check(lans{});
}

TEST_CASE("optimizers on a GPU: groups, slow weights, averages, schedule-free") {
  check(parameter_groups{sgd{}, parameter_group{"", sgd{.momentum = 0.5}, 2, kind::weight}});
  check(lookahead{sgd{}, 2});
  check(weight_average{sgd{}, exponential_average{0.5}});
  check(schedule_free_sgd{.weight_decay = 0.1, .warmup_steps = 3});
  check(schedule_free_adamw{.weight_decay = 0.1});
}

TEST_CASE("optimizers on a GPU: clip, local_steps") {
  check(clip{sgd{}, 0.1});
  check(clip{local_steps{sgd{}, 2}, 0.1});
  check(one_bit_adam{.weight_decay = 0.01, .start_epoch = 1});
  check(one_bit_adam{.weight_decay = 0.01, .start_epoch = 0});
  check(zero_one_adam{.weight_decay = 0.01, .var_update_scaler = 1});
  check(zero_one_adam{
      .weight_decay = 0.01, .var_freeze_step = 0, .local_step_scaler = 1, .local_step_clipper = 2});
  check(outer_momentum{local_steps{sgd{}, 2}});
  check(outer_momentum{local_steps{sgd{}, 2}, {.fragments = 2, .fragment_numbers = 64}});
  check(overlapped{outer_momentum{local_steps{sgd{}, 3}, {.mixing = 0.5}}, 1});
}
