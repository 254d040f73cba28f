// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A trainer of every optimizer's own type, over a ring and with one rank; of kfac's, which needs a
// network's layers, in kfac.cpp.
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
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
#include <cordee/optim/lookahead.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/one_bit_lamb.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/optim/rmsprop.hpp>
#include <cordee/optim/rmsprop_warmup.hpp>
#include <cordee/optim/schedule_free.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/optim/zero_one_adam.hpp>

#include "tests/train/combinations.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr auto make_ring = [](threads comm) { return ring{comm}; };
constexpr auto make_solo = [](self_comm) { return solo{}; };

// Four ranks with the data of one, whose weights the goldens test, end where that one ends. Sums of
// four gradients and their squares round by some units of 2^-53, and adaptive optimizers divide by
// norms: 1e-12 of the way.
template <class O>
void check_as_one_rank(const char* name, const O& optimizer) {
  INFO(name);
  const auto by_rank = two_steps_on(4, optimizer, make_ring);
  for (const auto& weights : by_rank) CHECK(weights == by_rank[0]);
  check_moved_to(by_rank[0], two_steps(optimizer, make_solo, self_comm{}), 1e-12);
}

}  // namespace

TEST_CASE("combinations: every exact optimizer over a ring steps as one rank with all data") {
  check_as_one_rank("sgd", sgd{.momentum = 0.9, .weight_decay = 0.01});
  check_as_one_rank("velocity_sgd", velocity_sgd{.momentum = 0.9, .weight_decay = 0.01});
  check_as_one_rank("lars", lars{.trust_coefficient = 0.02});
  check_as_one_rank("lars_lr_outside", lars_lr_outside{.trust_coefficient = 0.02});
  check_as_one_rank("lars_unscaled", lars_unscaled{.trust_coefficient = 0.02});
  check_as_one_rank("lamb", lamb{});
  check_as_one_rank("nvlamb", nvlamb{});
  check_as_one_rank("lambc", lambc{});
  check_as_one_rank("adamw", adamw{});
  check_as_one_rank("adamp", adamp{});
  check_as_one_rank("lion", lion{});
  check_as_one_rank("one_bit_adam", one_bit_adam{.start_epoch = 1});
  check_as_one_rank("one_bit_lamb", one_bit_lamb{.start_epoch = 1});
  check_as_one_rank("zero_one_adam", zero_one_adam{.var_freeze_step = 0});
  check_as_one_rank("adan", adan{});
  check_as_one_rank("lans", lans{});
  check_as_one_rank("larc", larc{});
  check_as_one_rank("lars_norm_of_sum", lars_norm_of_sum{.trust_coefficient = 0.02});
  check_as_one_rank("deepspeed_lamb", deepspeed_lamb{});
  check_as_one_rank("adam", adam{});
  check_as_one_rank("rmsprop", rmsprop{});
  check_as_one_rank("centered_rmsprop", centered_rmsprop{});
  check_as_one_rank("rmsprop_warmup", rmsprop_warmup{});
  check_as_one_rank("clip", clip{sgd{.momentum = 0.9}, 0.5});
  check_as_one_rank("clip{lars}", clip{lars{.trust_coefficient = 0.02}, 0.5});
  check_as_one_rank("parameter_groups",
                    parameter_groups{sgd{.momentum = 0.9}, parameter_group{"b", sgd{}, 2}});
  check_as_one_rank("lookahead", lookahead{sgd{.momentum = 0.9}, 2});
  check_as_one_rank("weight_average, exponential",
                    weight_average{sgd{.momentum = 0.9}, exponential_average{0.5}});
  check_as_one_rank("schedule_free_sgd", schedule_free_sgd{});
  check_as_one_rank("schedule_free_adamw", schedule_free_adamw{});
  check_as_one_rank("weight_average, stochastic",
                    weight_average{sgd{.momentum = 0.9}, stochastic_average{1, 1}});
}

TEST_CASE("combinations: qg_dmsgd, which mixes weights, steps as one rank over an exact mean") {
  check_as_one_rank("qg_dmsgd", qg_dmsgd{.momentum = 0.5});
}

TEST_CASE("combinations: sgd and velocity_sgd with one rank reach the closed form") {
  check_moved_to(two_steps(sgd{.momentum = 0.9}, make_solo, self_comm{}), heavy_ball(0.9), 1e-15);
  check_moved_to(two_steps(velocity_sgd{.momentum = 0.9}, make_solo, self_comm{}), heavy_ball(0.9),
                 1e-14);
}

TEST_CASE("combinations: optimizers that average weights keep the mean's closed form over a ring") {
  check_mean("decentlam", decentlam{.momentum = 0.3}, 0.3, make_ring);
  check_mean("adapt_while_combine{sgd}", adapt_while_combine{sgd{.momentum = 0.3}}, 0.3, make_ring);
  check_mean("decentlam_over{sgd}", decentlam_over{sgd{.momentum = 0.3}}, 0.3, make_ring);
  check_mean("local_steps{sgd, 1}", local_steps{sgd{.momentum = 0.3}, 1}, 0.3, make_ring);
  check_mean("local_steps{sgd, 8}", local_steps{sgd{.momentum = 0.3}, 8}, 0.3, make_ring);
  check_mean("clip{local_steps}", clip{local_steps{sgd{.momentum = 0.3}, 2}, 1e3}, 0.3, make_ring);
}

TEST_CASE("combinations: wrapped adaptive optimizers step each rank by its own gradient") {
  // All ranks have rank 0's weights at first, so the trust ratio of step 1 is a rank's own.
  for (const auto& weights :
       two_steps_on(4, local_steps{lars{.trust_coefficient = 0.02}, 4}, make_ring)) {
    REQUIRE(weights.size() == 9);
    CHECK(weights != t4_initial_weights());
  }
  const auto mixed = two_steps_on(4, decentlam_over{lars{.trust_coefficient = 0.02}},
                                  [](threads comm) { return gossip{comm}; });
  for (const auto& weights : mixed) {
    REQUIRE(weights.size() == 9);
    CHECK(weights != t4_initial_weights());
  }
}
