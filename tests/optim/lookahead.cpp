// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_wrappers.cpp.
#include <doctest/doctest.h>

#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lookahead.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

TEST_CASE("lookahead obeys the optimizer laws") {
  CHECK(optimizer_laws(lookahead{sgd{}}) == "");
  // A period-th step at learning rate 0 moves the weights to the slow ones.
  CHECK(optimizer_laws(lookahead{lamb{}, 2, 0.8}, {.zero_learning_rate_moves_nothing = false}) ==
        "");
}

TEST_CASE("lookahead at rate 1 has the weights of the optimizer inside") {
  optimizer_fixture<sgd> a(sgd{});
  optimizer_fixture<lookahead<sgd>> b(lookahead{sgd{}, 2, 1});
  a.reset(1);
  b.reset(1);
  for (std::uint64_t k = 0; k < 5; ++k) {
    a.set_gradient(k).step(0.1);
    b.set_gradient(k).step(0.1);
    CHECK(a.weights() == b.weights());
  }
}

TEST_CASE("lookahead describes every option and refuses those out of range") {
  CHECK(lookahead{sgd{}, 6, 0.25}.describe() ==
        "lookahead, every 6 steps at rate 0.25, of " + sgd{}.describe());
  const auto refusal = [](const auto& o) { return support::error_message([&] { o.check(); }); };
  CHECK(refusal(lookahead{sgd{}}) == "");
  CHECK(support::contains(refusal(lookahead{sgd{}, 0}),
                          "lookahead: the period must be at least 1 step"));
  CHECK(
      support::contains(refusal(lookahead{sgd{}, 5, 0}), "lookahead: the rate must be in (0, 1]"));
  CHECK(refusal(lookahead{sgd{.momentum = 2}}) != "");
}
