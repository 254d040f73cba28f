// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_local_steps.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/outer_momentum.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/train/checks/pairing.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using diloco = outer_momentum<local_steps<adamw>>;
using detail::train::Compatible;

static_assert(OptimizerOn<diloco, float, cpu> && diloco::slots == 4 && !diloco::eager);
static_assert(outer_momentum<local_steps<sgd>>::norms == norms_needed::never);
// Differences may be rounded; weights may not. Gossip has no mean that all ranks have.
static_assert(Compatible<diloco, ring<threads>> &&
              !Compatible<diloco, gossip<threads, topologies::ring>>);
static_assert(Compatible<diloco, compressed<ring<threads>, fp16>> &&
              Compatible<clip<diloco>, compressed<ring<threads>, fp16>> &&
              !Compatible<local_steps<adamw>, compressed<ring<threads>, fp16>>);

TEST_CASE("outer_momentum obeys the optimizer laws") {
  // b moves the weights at learning rate 0, too, but for SlowMo
  CHECK(optimizer_laws(outer_momentum{local_steps{sgd{}, 2}},
                       {.zero_learning_rate_moves_nothing = false}) == "");
  CHECK(optimizer_laws(outer_momentum{
            local_steps{sgd{.weight_decay = 0.1}, 3},
            {.momentum = 0.5, .learning_rate = 1, .nesterov = false, .per_learning_rate = true}}) ==
        "");
}

TEST_CASE("outer_momentum: every segment averages once a period, in its fragment's step") {
  const outer_momentum o{local_steps{sgd{}, 6}, {.fragments = 3, .fragment_numbers = 64}};
  for (std::size_t block = 0; block < 7; ++block)
    for (std::int64_t step = 0; step < 18; ++step) {
      const segment part{"w", kind::weight, 64 * block, 8};
      const std::int64_t last = 5 - 2 * static_cast<std::int64_t>(block % 3);
      CHECK(o.averages(part, step_info{.step = step}) == (step % 6 == last));
    }
}

TEST_CASE("outer_momentum without momentum at rate 1 is local_steps, up to a rounding") {
  outer_momentum plain{local_steps{sgd{}, 3}, {.momentum = 0, .learning_rate = 1}};
  optimizer_fixture<decltype(plain)> fixture(plain);
  optimizer_fixture<local_steps<sgd>> local(local_steps{sgd{}, 3});
  fixture.reset(1), local.reset(1);
  for (std::uint64_t t = 1; t <= 9; ++t) {
    fixture.set_gradient(t).step(0.1);
    local.set_gradient(t).step(0.1);
    const auto a = fixture.weights(), b = local.weights();
    double error = 0;
    for (std::size_t i = 0; i < a.size(); ++i) error = std::max(error, std::abs(a[i] - b[i]));
    CHECK(error < 3 * 3e-15);  // w - (w - a): one rounding of numbers below 8 an average
  }
}

TEST_CASE("outer_momentum describes every option and refuses those out of range") {
  const outer_momentum slowmo{
      local_steps{sgd{}, 12},
      {.momentum = 0.5, .learning_rate = 1, .nesterov = false, .per_learning_rate = true}};
  CHECK(slowmo.describe() ==
        concat("outer momentum 0.5, learning rate 1 times the schedule's, over ",
               slowmo.optimizer.describe()));
  CHECK(outer_momentum{local_steps{sgd{}, 2}}.describe().starts_with(
      "outer momentum 0.9 (Nesterov), learning rate 0.7, over local steps of sgd"));
  const auto refusal = [](const auto& o) { return support::error_message([&] { o.check(); }); };
  CHECK(refusal(outer_momentum{local_steps{sgd{}, 2}, {.momentum = 1}}) ==
        "outer_momentum: momentum is 1, but must be in [0, 1)");
  CHECK(refusal(outer_momentum{local_steps{sgd{}, 2}, {.learning_rate = 0}}) != "");
  CHECK(refusal(outer_momentum{local_steps{sgd{}, 0}}) != "");
  for (const int fragments : {0, 3, -1})
    CHECK(support::contains(
        refusal(outer_momentum{local_steps{sgd{}, 2}, {.fragments = fragments}}),
        "outer_momentum: fragments must be in 1 to the period of the local steps"));
  CHECK(refusal(outer_momentum{local_steps{sgd{}, 2}, {.fragment_numbers = 0}}) != "");
}
