// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every optimizer on a GPU, emulated: steps equal the CPU's, skipped steps included; in double
// precision, which shows more.
#include <cordee/ops/gpu/segmented.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/optimizer_on_device.hpp"

using namespace cordee;
using namespace cordee::detail::core;
using namespace cordee::detail::optim;
using namespace support;

static_assert(OptimizerOn<sgd, float, emulated> &&
              OptimizerOn<clip<local_steps<lars>>, float, emulated>);
static_assert(DirectionOn<lars, float, emulated>);

namespace {

template <class O>
void check(const O& optimizer) {
  expect_same_as_cpu<double>(optimizer, emulated(1));
}

}  // namespace

TEST_CASE("optimizers on a GPU, emulated: optimizers of each kind in single precision") {
  expect_same_as_cpu<float>(sgd{.weight_decay = 1e-2, .nesterov = true}, emulated(2));
  expect_same_as_cpu<float>(lars{.nesterov = true, .adapt_on = trainable}, emulated(2));
  expect_same_as_cpu<float>(
      lars_unscaled{.trust_coefficient = 0.1, .limits = {.ratio = 0.5, .element = 0.01}},
      emulated(2));
  expect_same_as_cpu<float>(nvlamb{.weight_decay = 0.1}, emulated(2));
  expect_same_as_cpu<float>(decentlam{.weight_decay = 1e-2, .nesterov = true}, emulated(2));
  expect_same_as_cpu<float>(clip{local_steps{lars{}, 2}, 0.1}, emulated(2));
}

TEST_CASE("optimizers on a GPU, emulated: sgd, velocity_sgd") {
  check(sgd{});
  check(sgd{.weight_decay = 1e-2, .dampening = 0.1});
  check(sgd{.weight_decay = 1e-2, .nesterov = true, .decay_on = trainable});
  check(velocity_sgd{.weight_decay = 1e-2});
  check(velocity_sgd{.weight_decay = 1e-2, .nesterov = true, .momentum_correction = false});
}

TEST_CASE("optimizers on a GPU, emulated: LARS in its three forms") {
  check(lars{.weight_decay = 1e-2});
  check(lars{.nesterov = true, .adapt_on = trainable});
  check(lars_lr_outside{.trust_coefficient = 0.1});
  check(lars_lr_outside{.nesterov = true});
  check(lars_unscaled{.trust_coefficient = 0.1, .limits = {.ratio = 0.5, .element = 0.01}});
}

TEST_CASE("optimizers on a GPU, emulated: adamw, lamb and its variants, lion, adan, lans") {
  check(adamw{.weight_decay = 0.1});
  check(lamb{});
  check(nvlamb{.weight_decay = 0.1});
  check(deepspeed_lamb{});
  check(lambc{.weight_decay = 0.1});
  check(lion{.weight_decay = 0.1});
  check(adan{.weight_decay = 0.1});
  check(lans{});
}

TEST_CASE(
    "optimizers on a GPU, emulated: decentlam, by itself and over another optimizer's direction") {
  check(decentlam{.weight_decay = 1e-2});
  check(decentlam{.weight_decay = 1e-2, .nesterov = true, .momentum_correction = false});
  check(decentlam_over{lars{.weight_decay = 1e-2}});
#if defined(CORDEE_ALL_TESTS)
  check(decentlam_over{sgd{.weight_decay = 1e-2, .nesterov = true}});
  check(decentlam_over{velocity_sgd{}});
  check(decentlam_over{lamb{}});
  check(decentlam_over{adamw{.weight_decay = 0.1}});
#endif
  check(adapt_while_combine{sgd{.weight_decay = 1e-2}});
  check(qg_dmsgd{.weight_decay = 1e-2, .nesterov = true});
}

TEST_CASE(
    "optimizers on a GPU, emulated: clip with large and small gradients, nested, and of local "
    "steps") {
  check(clip{sgd{}, 0.1});
  check(clip{lars{}, 1e6});
  check(clip{clip{nvlamb{}, 0.2}, 0.1});
  check(clip{decentlam{}, 0.1});
  check(clip{local_steps{lars{}, 2}, 0.1});
}

#if defined(CORDEE_ALL_TESTS)
TEST_CASE("optimizers on a GPU, emulated: adam, rmsprop, rmsprop_warmup") {
  check(adam{.weight_decay = 0.1});
  // Where gradient and decay cancel, a fused multiplication's other rounding, 1e-9, is magnified by
  // up to 1 / epsilon, and 3.4 times in four steps.
  check(rmsprop{.momentum = 0.9, .epsilon = 1e-2, .weight_decay = 0.1});
  check(centered_rmsprop{});
  check(rmsprop_warmup{.center = 2, .period = 2});
}

TEST_CASE("optimizers on a GPU, emulated: LARC and the norm of the sum") {
  check(larc{.weight_decay = 1e-2});
  check(larc{.weight_decay = 1e-2, .limits = {.clip = false}, .nesterov = true});
  check(lars_norm_of_sum{.weight_decay = 0.1});
}

TEST_CASE("optimizers on a GPU, emulated: groups, slow weights, averages, schedule-free") {
  check(parameter_groups{sgd{}, parameter_group{"", sgd{.momentum = 0.5}, 2, kind::weight},
                         parameter_group{"", sgd{}, 0, kind::bias}});
  check(parameter_groups{lamb{}, parameter_group{"", lamb{.beta1 = 0.5}, 2, kind::weight}});
  check(lookahead{sgd{}, 2});
  check(weight_average{sgd{}, exponential_average{0.5}});
  check(schedule_free_sgd{.weight_decay = 0.1, .warmup_steps = 3});
  check(schedule_free_adamw{.weight_decay = 0.1});
  check(weight_average{local_steps{sgd{}, 2}, stochastic_average{1, 2}});
}

TEST_CASE("optimizers on a GPU, emulated: local steps") {
  check(local_steps{sgd{}, 2});
  check(local_steps{adamw{}, 3});
  check(one_bit_adam{.weight_decay = 0.01, .start_epoch = 1});
  check(one_bit_adam{.weight_decay = 0.01, .start_epoch = 0});
  check(zero_one_adam{.weight_decay = 0.01, .var_update_scaler = 1});
  check(zero_one_adam{
      .weight_decay = 0.01, .var_freeze_step = 0, .local_step_scaler = 1, .local_step_clipper = 2});
  check(outer_momentum{local_steps{sgd{}, 2}});
  check(outer_momentum{local_steps{sgd{}, 2}, {.fragments = 2, .fragment_numbers = 64}});
  check(overlapped{outer_momentum{local_steps{sgd{}, 3}, {.mixing = 0.5}}, 1});
}
#endif
