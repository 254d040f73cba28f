// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/testing/shard_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(ReducerOn<sharded<ring<threads>>, float, cpu>);
static_assert(detail::comm::Shardable<torus_ring<threads>>);
static_assert(!detail::comm::Shardable<tree<threads>> && !detail::comm::Shardable<native<threads>>);

namespace {

double even(int ranks) { return 1.0 / ranks; }
double by_power_of_two(int ranks) { return 1.0 / (ranks == 3 ? 2 : ranks == 5 ? 4 : ranks); }

}  // namespace

TEST_CASE("sharded leaves each rank its range of the mean, and gathers all of them") {
  CHECK(shard_laws([](threads comm) { return ring{comm}; }, {.largest_share = even}) == "");
  CHECK(shard_laws([](threads comm) { return torus_ring{comm}; }, {.largest_share = even}) == "");
}

TEST_CASE("sharded has the bits of the mean where sums do not depend on the cut") {
  CHECK(shard_laws([](threads comm) { return two_shot{comm}; },
                   {.same_bits = true, .largest_share = even}) == "");
  CHECK(shard_laws([](threads comm) { return halving_doubling{comm}; },
                   {.same_bits = true, .largest_share = by_power_of_two}) == "");
}

TEST_CASE("sharded describes itself") {
  on_ranks(2, [](threads comm) {
    CHECK(sharded{ring{comm}}.describe() ==
          "ring over 2 ranks: exact mean; optimizer state sharded over 2 ranks");
    return 0;
  });
}
