// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a run says, or refuses, that is resumed on another number of ranks.
#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;

namespace {

/// As much of a trainer as rank_change needs.
template <class R>
struct run_over {
  struct model_type {};
  using Real = float;
  static constexpr bool weights_differ = R::offers != agreement::exact;
  struct world {
    int size() const { return 3; }
  };
  sgd optimizer() const;
  R reducer() const;
  world comm() const { return {}; }
};
struct with_memory {
  static constexpr agreement offers = agreement::exact;
  static constexpr int slots = 1;
};

}  // namespace

TEST_CASE("rank_change: a reducer whose memory has no mean is refused, with the remedy") {
  run_over<ring<threads>> exact;
  CHECK(rank_change(3, exact).empty());
  CHECK(rank_change(4, exact) ==
        "resume: 4 ranks -> 3: every rank begins with the mean of the saved ranks' running "
        "statistics; weights and optimizer slots were alike on all\n");
  run_over<gossip<threads>> mixing;
  CHECK(rank_change(1, mixing) ==
        "resume: 1 rank -> 3: every rank begins with the mean of the saved ranks' weights, "
        "optimizer slots and running statistics\n");
  run_over<compressed<ring<threads>, int8>> feedback;
  CHECK(contains(rank_change(4, feedback), "and of what error feedback has kept back"));
  run_over<server<threads, asynchronous>> clocked;
  CHECK(rank_change(3, clocked).empty());
  CHECK(contains_all(error_message([&] { rank_change(4, clocked); }),
                     {"clock and the pushes of an asynchronous server of 4 ranks",
                      "go on with 4 ranks, or begin a new run from saved weights"}));
  run_over<with_memory> unknown;
  CHECK(contains_all(error_message([&] { rank_change(4, unknown); }),
                     {"the reducer's slots of 4 ranks", "residual_slots", "go on with 4 ranks"}));
}
