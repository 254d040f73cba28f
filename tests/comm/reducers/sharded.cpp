// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
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
static_assert(!detail::comm::Shardable<tree<threads>> && detail::comm::Shardable<native<threads>>);
static_assert(!detail::comm::Shardable<hybrid<one_shot<threads>, two_shot<threads>>>);
static_assert(!detail::comm::Shardable<native<counting_communicator<threads>>>);

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
  CHECK(shard_laws([](threads comm) { return native{comm}; },
                   {.same_bits = true, .largest_share = even}) == "");
}

TEST_CASE("sharded over a hybrid has the ranges of the reducer of a message's length") {
  // Messages have 0 to 2,112 numbers, 448 among them.
  const auto make = [](threads comm) { return hybrid{halving_doubling{comm}, native{comm}, 448}; };
  CHECK(shard_laws(make, {.same_bits = true, .largest_share = by_power_of_two}) == "");
  // Rows of whole units need more scratch than two_shot states for 448 numbers.
  CHECK(shard_laws(
            [](threads comm) {
              return hybrid{two_shot{comm}, native{comm}, 448};
            },
            {.same_bits = true, .largest_share = even}) == "");
  on_ranks(3, [&](threads comm) {
    const sharded reducer{make(comm)};
    CHECK(reducer.own_range(448).end == sharded{halving_doubling{comm}}.own_range(448).end);
    CHECK(reducer.own_range(512).end == comm.own_range(512).end);
    return 0;
  });
}

TEST_CASE("sharded describes itself") {
  on_ranks(2, [](threads comm) {
    CHECK(sharded{ring{comm}}.describe() ==
          "ring over 2 ranks: exact mean; optimizer state sharded over 2 ranks");
    return 0;
  });
}
