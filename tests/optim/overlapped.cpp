// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Through the trainer, with golden vectors: tests/train/step/delayed_exchange.cpp.
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/overlapped.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/train/checks/pairing.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using streaming = overlapped<outer_momentum<local_steps<adamw>>>;
using detail::train::Compatible;

static_assert(OptimizerOn<streaming, float, cpu> && streaming::slots == 5 && !streaming::eager);
static_assert(Compatible<streaming, ring<threads>> &&
              Compatible<streaming, compressed<ring<threads>, fp16>> &&
              !Compatible<streaming, gossip<threads, topologies::ring>>);

TEST_CASE("overlapped obeys the optimizer laws") {
  CHECK(optimizer_laws(overlapped{outer_momentum{local_steps{sgd{}, 3}, {.mixing = 0.5}}, 2},
                       {.zero_learning_rate_moves_nothing = false}) == "");
}

TEST_CASE("overlapped: local steps alone until the accept, then the outer step of before") {
  const outer_momentum outer{local_steps{sgd{}, 4}};
  optimizer_fixture<decltype(overlapped{outer})> late(overlapped{outer, 2});
  optimizer_fixture<decltype(outer)> early(outer);
  optimizer_fixture<sgd> alone(sgd{});
  late.reset(1), early.reset(1), alone.reset(1);
  for (std::uint64_t t = 1; t <= 6; ++t) {
    CAPTURE(t);
    late.set_gradient(t).step(0.1);
    alone.set_gradient(t).step(0.1);
    if (t <= 4) early.set_gradient(t).step(0.1);
    CHECK((late.weights() == alone.weights()) == (t < 6));
  }
  CHECK(late.weights() == early.weights());  // a, with what the two steps since did dropped
}

TEST_CASE("outer_momentum: mixing keeps a share of the rank's own weights") {
  const auto after = [](double mixing) {
    const outer_momentum outer{local_steps{sgd{}, 2}, {.mixing = mixing}};
    optimizer_fixture<decltype(outer)> fixture(outer);
    fixture.reset(1);
    for (std::uint64_t t = 1; t <= 2; ++t) fixture.set_gradient(t).step(0.1);
    return fixture.weights();
  };
  optimizer_fixture<sgd> local(sgd{});
  local.reset(1);
  for (std::uint64_t t = 1; t <= 2; ++t) local.set_gradient(t).step(0.1);
  const auto a = after(0), mixed = after(0.25), own = local.weights();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(mixed[i] == 0.25 * own[i] + 0.75 * a[i]);
}

TEST_CASE("overlapped describes its steps, and refuses those out of range") {
  const outer_momentum outer{local_steps{sgd{}, 8}, {.mixing = 0.5, .fragments = 2}};
  CHECK(overlapped{outer, 3}.describe() == outer.describe() + "; averages accepted 3 steps later");
  CHECK(support::contains(outer.describe(), ", mixing 0.5, of 2 fragments"));
  const auto refusal = [](const auto& o) { return support::error_message([&] { o.check(); }); };
  CHECK(refusal(overlapped{outer, 3}) == "");
  for (const int steps : {0, -1, 4})
    CHECK(support::contains(refusal(overlapped{outer, steps}), "overlapped: steps must be"));
  CHECK(support::contains(refusal(overlapped{outer_momentum{local_steps{sgd{}, 4, 1.0}}, 1}),
                          "overlapped: start_epoch"));
  for (const double mixing : {-0.1, 1.0})
    CHECK(support::contains(refusal(outer_momentum{local_steps{sgd{}, 2}, {.mixing = mixing}}),
                            "outer_momentum: mixing is"));
}
