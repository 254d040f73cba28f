// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/threads/world.hpp>

using namespace cordee;
using namespace std::chrono_literals;

TEST_CASE("world: the first failure is the cause, and whoever fails after it is not") {
  detail::thread_world world(3, 1s);
  CHECK_FALSE(world.failed());
  world.fail(2, "out of rope");
  world.fail(0, "an echo");
  CHECK(world.failed());
  CHECK(world.cause() == "rank 2: out of rope");
}

TEST_CASE("world: who has left is known, and every desk hears of it") {
  detail::thread_world world(2, 1s);
  const unsigned before = world.at(1, 3).changes;
  world.leave(0);
  CHECK(world.has_left(0));
  CHECK_FALSE(world.has_left(1));
  CHECK(world.at(1, 3).changes > before);
}

TEST_CASE("world: a desk for each rank on each lane, an inbox there for each sender") {
  detail::thread_world world(3, 1s);
  CHECK(world.size == 3);
  CHECK(world.deadline == 1s);
  for (int rank = 0; rank < 3; ++rank)
    for (int lane = 0; lane < lane_count; ++lane) {
      CHECK(world.at(rank, lane).inbox.size() == 3);
      for (int other = 0; other < 3; ++other)
        for (int another = 0; another < lane_count; ++another)
          CHECK((&world.at(rank, lane) == &world.at(other, another)) ==
                (rank == other && lane == another));
    }
  CHECK(&world.table(0) != &world.table(1));
}
