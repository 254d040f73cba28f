// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_wrappers.cpp.
#include <doctest/doctest.h>

#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

namespace {

constexpr optimizer_law_options lr_inside{.zero_learning_rate_moves_nothing = false};
const std::string_view first = quadratic_table.front().name;

}  // namespace

TEST_CASE("parameter_groups obeys the optimizer laws") {
  CHECK(optimizer_laws(parameter_groups{sgd{.weight_decay = 0.1},
                                        parameter_group{first, sgd{.momentum = 0.5}, 3}}) == "");
  CHECK(optimizer_laws(
            parameter_groups{lars{}, parameter_group<lars>{"", {.nesterov = true}, 2, kind::bias},
                             parameter_group<lars>{first, {}, 0}},
            lr_inside) == "");
  CHECK(optimizer_laws(parameter_groups{
            lamb{}, parameter_group<lamb>{"", {.adapt_on = {}}, 1, kind::bias}}) == "");
}

TEST_CASE("parameter_groups of one optimizer has the bits of that optimizer") {
  const lamb inner{.weight_decay = 0.1};
  const parameter_groups groups{inner, parameter_group<lamb>{first, inner},
                                parameter_group<lamb>{"", inner, 1, kind::bias}};
  optimizer_fixture<lamb> a(inner);
  optimizer_fixture<std::remove_const_t<decltype(groups)>> b(groups);
  a.reset(1);
  b.reset(1);
  for (std::uint64_t k = 0; k < 4; ++k) {
    a.set_gradient(k).step(0.1);
    b.set_gradient(k).step(0.1);
  }
  CHECK(a.state() == b.state());
}

TEST_CASE("parameter_groups refuses names that no parameter has, inside wrappers as well") {
  const auto refusal = [](const auto& optimizer) {
    return support::error_message(
        [&] { detail::optim::check_optimizer(optimizer, quadratic_table); });
  };
  CHECK(refusal(parameter_groups{sgd{}, parameter_group{first, sgd{}}}) == "");
  CHECK(support::contains(refusal(parameter_groups{sgd{}, parameter_group{"nowhere.", sgd{}}}),
                          "no parameter belongs to group 0, \"nowhere.\": names begin as \""));
  CHECK(support::contains(
      refusal(local_steps{parameter_groups{sgd{}, parameter_group{"nowhere.", sgd{}}}, 2}),
      "no parameter belongs to group 0"));
  CHECK(support::contains(refusal(parameter_groups{sgd{}, parameter_group{first, sgd{}, -1}}),
                          "learning_rate_factor is -1"));
  CHECK(support::contains(
      refusal(parameter_groups{sgd{}, parameter_group{first, sgd{.momentum = 2}}}),
      "sgd: momentum is 2"));
}

TEST_CASE("parameter_groups describes every group") {
  const std::string text = parameter_groups{
      sgd{}, parameter_group{
                 "fc.", sgd{.momentum = 0.5}, 10,
                 kind::weight}}.describe();
  CHECK(text == sgd{}.describe() +
                    "; parameters \"fc.\" of kind weight at 10 times the learning "
                    "rate: " +
                    sgd{.momentum = 0.5}.describe());
}
