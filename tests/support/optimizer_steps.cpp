// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Prints the weights of the toy set T4 after forty steps of each optimizer that another library
// has as well, for optimizer_oracle.py, which compiles this.
#define DOCTEST_CONFIG_IMPLEMENT
#include <array>
#include <cstdio>
#include <vector>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/cordee.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using namespace support;

namespace {

// W1 of two rows, W2 of one, as the tensors of the other side.
constexpr auto table = [] {
  auto t = t4_table;
  t[0].shape = {2, 2, 0, 0};
  t[2].shape = {1, 2, 0, 0};
  return t;
}();
struct model : quadratic<fp64> {
  static constexpr std::span<const segment> segments() { return table; }
};

template <class Model = model, class O>
void show(const char* name, const O& optimizer, Model t4 = {}) {
  trainer run{t4, optimizer, [](double epoch) { return 0.05 / (1 + epoch / 10); }, solo{}};
  for (int k = 0; k < 40; ++k) run.step(std::array{one_each(1)}, k);
  std::printf("%s", name);
  const auto weights = run.with_mean_model([&] {  // of weight_average the average
    std::vector<double> all;
    for (std::size_t k = 0; k < 4; ++k)
      for (const double w : numbers(run.weights(), k)) all.push_back(w);
    return all;
  });
  for (const double w : weights) std::printf("\t%.17g", w);
  std::printf("\n");
}

}  // namespace

int main() {
  show("sgd", sgd{.momentum = 0.9, .weight_decay = 0.01});
  show("sgd, Nesterov", sgd{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  show("sgd, dampening", sgd{.momentum = 0.9, .weight_decay = 0.01, .dampening = 0.5});
  show("clip{sgd}", clip{sgd{.momentum = 0.9, .weight_decay = 0.01}, 0.5});
  show("adam", adam{.weight_decay = 0.01});
  show("adamw", adamw{.weight_decay = 0.01});
  show("adamp", adamp{.weight_decay = 0.01, .delta = 0.5});
  show("adamp, Nesterov", adamp{.weight_decay = 0.01, .delta = 1, .nesterov = true});
  show("lion", lion{.weight_decay = 0.01});
  show("adan", adan{.weight_decay = 0.01});
  show("schedule_free_sgd", schedule_free_sgd{.weight_decay = 0.01});
  show("schedule_free_adamw", schedule_free_adamw{.weight_decay = 0.01});
  const auto matrices = [](double decay) {
    return cordee::detail::train::muon_options{
        .weight_decay = decay, .first_layer = "", .classifier = ""};
  };
  show("muon{adamw}", muon{adamw{}, matrices(0.01)});
  auto matched = matrices(0.01);
  matched.nesterov = false;
  matched.scale_by = muon_scale::match_rms_adamw;
  show("muon{adamw}, match_rms_adamw", muon{adamw{}, matched});
  show("muon{adamw}, pytorch_optimizer", muon{adamw{}, matrices(0.01)});
  show("muon{adamw} in bf16", muon{adamw{}, matrices(0.01)});
  show("one_bit_adam", one_bit_adam{.weight_decay = 0.01, .start_epoch = 19});
  show("one_bit_lamb", one_bit_lamb{.weight_decay = 0.01, .start_epoch = 19});
  for (const double decay : {0.0, 0.01})
    show(decay == 0 ? "zero_one_adam" : "zero_one_adam with decay",
         zero_one_adam{.weight_decay = decay,
                       .var_freeze_step = 15,
                       .var_update_scaler = 3,
                       .local_step_scaler = 4,
                       .local_step_clipper = 4});
  show("rmsprop", rmsprop{.weight_decay = 0.01});
  show("rmsprop, momentum", rmsprop{.momentum = 0.9, .weight_decay = 0.01});
  show("centered_rmsprop", centered_rmsprop{.momentum = 0.9, .weight_decay = 0.01});
  show("lamb", lamb{.weight_decay = 0.01});
  show("clip{lamb}", clip{lamb{.weight_decay = 0.01}, 1.0, 0.0});
  show("lambc", lambc{.weight_decay = 0.01});
  show("nvlamb", nvlamb{.weight_decay = 0.01});
  show("lars_lr_outside", lars_lr_outside{.weight_decay = 0.01, .trust_coefficient = 0.5});
  show("lars_lr_outside, Nesterov",
       lars_lr_outside{.weight_decay = 0.01, .trust_coefficient = 0.5, .nesterov = true});
  show("larc of weights", larc{.weight_decay = 0.01, .epsilon = 1e-8, .adapt_on = kind::weight});
  show("lamb without decay", lamb{.weight_decay = 0, .always_adapt = false});
  show("nvlamb without decay", nvlamb{.weight_decay = 0});
  show("lars_lr_outside without decay",
       lars_lr_outside{.weight_decay = 0, .trust_coefficient = 0.5, .always_adapt = false});
  show("apex: clip{lamb}", clip{lamb{.weight_decay = 0.01}, 1.0, 0.0});
  show("apex: clip{nvlamb}", clip{nvlamb{.weight_decay = 0.01}, 1.0, 0.0});
  show("apex: larc", larc{.weight_decay = 0.01});
  show("apex: larc without clip", larc{.weight_decay = 0.01, .limits = {.clip = false}});
  show("lookahead", lookahead{sgd{.momentum = 0.9}, 6, 0.5});
  show("sharpness_aware", sgd{.momentum = 0.9, .weight_decay = 0.01},
       sharpness_aware<model>{{.radius = 0.2}});
  show("sharpness_aware, adaptive", sgd{.momentum = 0.9, .weight_decay = 0.01},
       sharpness_aware<model>{{.radius = 0.5, .adaptive = true, .eta = 0}});
  show("outer_momentum", outer_momentum{local_steps{sgd{.momentum = 0.9}, 4}});
  show("outer_momentum, SlowMo", outer_momentum{local_steps{sgd{.momentum = 0.9}, 4},
                                                {.nesterov = false, .per_learning_rate = true}});
  show("overlapped", overlapped{outer_momentum{local_steps{sgd{.momentum = 0.9}, 4}}, 2});
  show("weight_average", weight_average{sgd{.momentum = 0.9}, exponential_average{0.9}});
}
