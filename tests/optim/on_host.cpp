// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What on_host forwards of the optimizer inside; its steps are in tests/train/step/host_update.cpp.
#include <concepts>
#include <string>

#include <doctest/doctest.h>

#include <cordee/optim/adam.hpp>
#include <cordee/optim/adamp.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/adan.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lans.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/lion.hpp>
#include <cordee/optim/lookahead.hpp>
#include <cordee/optim/on_host.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/rmsprop.hpp>
#include <cordee/optim/rmsprop_warmup.hpp>
#include <cordee/optim/schedule_free.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>

using namespace cordee;
using namespace cordee::detail::optim;

static_assert(UpdatesOnHost<on_host<sgd>> && !UpdatesOnHost<sgd>);
static_assert(HidesHostUpdate<clip<on_host<sgd>>> && !HidesHostUpdate<on_host<clip<sgd>>>);
static_assert(on_host<lamb>::slots == lamb::slots && norms_of<on_host<lamb>> == norms_of<lamb> &&
              norms_of<on_host<sgd>> == norms_of<sgd> && is_eager<on_host<sgd>>);
static_assert(std::same_as<placed_type<on_host<clip<lars>>>, clip<lars>> &&
              std::same_as<placed_type<lars>, lars>);

// Every optimizer that averages gradients, adamp included, which steps on CPUs alone.
template <class... O>
constexpr bool all_step_on_host = (OptimizerOn<on_host<O>, float, cpu> && ...);
static_assert(all_step_on_host<sgd, velocity_sgd, lars, lars_lr_outside, lars_unscaled,
                               lars_norm_of_sum, larc, lamb, nvlamb, lambc, deepspeed_lamb, adamw>);
static_assert(all_step_on_host<adamp, adam, rmsprop, centered_rmsprop, rmsprop_warmup, adan, lion,
                               lans, schedule_free_sgd, schedule_free_adamw, lookahead<sgd>,
                               weight_average<clip<lamb>, stochastic_average>,
                               decltype(parameter_groups{lamb{}, parameter_group{"fc.", lamb{}}})>);

TEST_CASE("on_host: its description is that of the optimizer inside, and whether it rounds") {
  const std::string inside = sgd{.momentum = 0.9}.describe();
  CHECK(on_host{sgd{.momentum = 0.9}}.describe() == inside + "; updated on the host");
  CHECK(on_host{sgd{.momentum = 0.9}, true, 3}.describe() ==
        inside + "; updated on the host by rounded gradients");
}

TEST_CASE("on_host: options of the optimizer inside are checked, too") {
  CHECK_NOTHROW(on_host{sgd{}}.check());
  CHECK_THROWS_AS((on_host{sgd{}, false, -1}.check()), usage_error);
  CHECK_THROWS_AS((on_host{clip{sgd{}, -1.0}}.check()), usage_error);
}
