// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_{decentralized,mixing}.cpp.
#include <doctest/doctest.h>

#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

static_assert(OptimizerOn<adapt_while_combine<sgd>, float, cpu>);
static_assert(adapt_while_combine<sgd>::eager && adapt_while_combine<sgd>::slots == 1);
static_assert(!adapt_while_combine<lamb>::eager && adapt_while_combine<lamb>::slots == 2);

TEST_CASE("adapt_while_combine obeys the optimizer laws") {
  CHECK(optimizer_laws(adapt_while_combine{sgd{.weight_decay = 0.1, .nesterov = true}}) == "");
  CHECK(optimizer_laws(adapt_while_combine{lars{.trust_coefficient = 0.02}}) == "");
  CHECK(optimizer_laws(adapt_while_combine{lamb{}}) == "");
}

TEST_CASE("adapt_while_combine{sgd} on one rank is sgd") {
  for (const bool nesterov : {false, true}) {
    const sgd plain{.weight_decay = 0.1, .nesterov = nesterov};
    optimizer_fixture<sgd> a(plain);
    optimizer_fixture<adapt_while_combine<sgd>> b(adapt_while_combine{plain});
    a.reset(1);
    b.reset(1);
    for (std::uint64_t k = 0; k < 6; ++k) {
      const double learning_rate = k < 3 ? 0.1 : 0.02;
      a.set_gradient(k).step(learning_rate);
      b.set_gradient(k).step(learning_rate);
    }
    CHECK(a.weights() == b.weights());
  }
}

TEST_CASE("adapt_while_combine describes and checks the optimizer inside") {
  CHECK(adapt_while_combine{sgd{}}.describe() ==
        "adapt while combine, along the direction of " + sgd{}.describe());
  CHECK(support::error_message([] { adapt_while_combine{sgd{.momentum = 2}}.check(); }) ==
        "sgd: momentum is 2, but must be in [0, 1)");
}
