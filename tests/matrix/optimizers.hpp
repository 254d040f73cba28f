// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every optimizer, with a learning rate at which the small network learns.
#pragma once

#include <cordee/cordee.hpp>

#include "tests/support/shaped.hpp"

namespace matrix {

using namespace cordee;

/// f(name, optimizer, learning rate) for each.
void for_each_optimizer(const auto& f) {
  f("sgd", sgd{}, 0.02);
  f("velocity_sgd", velocity_sgd{}, 0.02);
  f("lars", lars{.trust_coefficient = 0.02}, 0.5);
  f("lars_lr_outside", lars_lr_outside{.trust_coefficient = 0.02}, 0.5);
  f("lars_unscaled", lars_unscaled{.trust_coefficient = 0.02}, 0.05);
  f("lars_norm_of_sum", lars_norm_of_sum{.trust_coefficient = 0.02}, 0.5);
  f("larc", larc{}, 0.02);
  f("larc without clip", larc{.limits = {.clip = false}}, 0.2);
  f("lamb", lamb{}, 0.01);
  f("nvlamb", nvlamb{}, 0.01);
  f("lambc", lambc{}, 0.01);
  f("deepspeed_lamb", deepspeed_lamb{}, 0.02);
  f("adam", adam{}, 0.01);
  f("adamw", adamw{}, 0.01);
  f("adamp", adamp{}, 0.01);
  f("lion", lion{}, 0.003);
  f("adan", adan{}, 0.01);
  f("lans", lans{}, 0.01);
  f("rmsprop", rmsprop{}, 0.001);
  f("centered_rmsprop", centered_rmsprop{}, 0.001);
  f("rmsprop_warmup", rmsprop_warmup{}, 0.1);
  f("rmsprop_warmup, slope 2", rmsprop_warmup{.slope = 2}, 0.1);
  f("clip{sgd}", clip{sgd{}}, 0.02);
  f("parameter_groups{sgd}", parameter_groups{sgd{}, parameter_group{"", sgd{}, 2, kind::bias}},
    0.02);
  f("lookahead{sgd}", lookahead{sgd{}}, 0.02);
  f("weight_average{sgd}", weight_average{sgd{}, exponential_average{0.5}}, 0.02);
  f("schedule_free_sgd", schedule_free_sgd{}, 0.1);
  f("schedule_free_adamw", schedule_free_adamw{}, 0.01);
  f("muon{sgd}", support::shaped{muon{sgd{}, {.first_layer = "", .classifier = ""}}}, 0.02);
  f("kfac{velocity_sgd}", kfac{velocity_sgd{}, 0.03}, 0.01);
  f("one_bit_adam, epoch 10", one_bit_adam{.start_epoch = 10}, 0.01);
  f("one_bit_lamb, epoch 10", one_bit_lamb{.start_epoch = 10}, 0.01);
  f("zero_one_adam", zero_one_adam{.var_freeze_step = 9, .local_step_scaler = 4}, 0.01);
  f("decentlam", decentlam{}, 0.02);
  f("decentlam_over{lars}", decentlam_over{lars{.trust_coefficient = 0.02}}, 0.5);
  f("decentlam_over{lamb}", decentlam_over{lamb{}}, 0.01);
  f("qg_dmsgd", qg_dmsgd{}, 0.02);
  f("adapt_while_combine{sgd}", adapt_while_combine{sgd{}}, 0.02);
  f("local_steps{sgd, 8}", local_steps{sgd{}, 8}, 0.02);
  f("local_steps{lars, 4}", local_steps{lars{.trust_coefficient = 0.02}, 4}, 0.5);
  f("outer_momentum{local_steps{sgd, 4}}", outer_momentum{local_steps{sgd{}, 4}}, 0.01);
  f("overlapped{outer_momentum}, 1", overlapped{outer_momentum{local_steps{sgd{}, 4}}, 1}, 0.01);
}

}  // namespace matrix
