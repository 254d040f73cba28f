// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <thread>

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
  CHECK(world.first.cause() == "rank 2: out of rope");
}

TEST_CASE("world: who is behind a silence is at the end of the chain, if it has one") {
  detail::thread_world world(4, 1s);
  CHECK(world.behind(1, 0) == 1);
  world.at(1, 0).awaited = 2;
  world.at(2, 0).awaited = 3;
  CHECK(world.behind(1, 0) == 3);
  CHECK(world.behind(1, 1) == 1);  // another lane
  world.at(3, 0).awaited = 1;
  CHECK(world.behind(1, 0) == 1);
}

TEST_CASE(
    "world: behind a silent server is whose push is due, whatever its own worker says to it") {
  detail::thread_world world(3, 1s);
  world.at(0, request_lane).due = 2;
  for (const int asked : {-1, 0, 1}) {
    world.at(0, request_lane).awaited = asked;
    CHECK(world.behind(0, answer_lane) == 2);
  }
}

TEST_CASE("world: who has left is known, and whoever waits on any lane hears of it") {
  for (int lane = 0; lane < lane_count; ++lane) {
    detail::thread_world world(2, 1s);
    const auto start = std::chrono::steady_clock::now();
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      world.leave(0);
    });
    world.at(1, lane).room.wait(30s, [&] { return world.has_left(0); });
    CHECK(world.has_left(0));
    CHECK_FALSE(world.has_left(1));
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    other.join();
  }
}

TEST_CASE("world: what nobody heard is known: who said it, to whom, and on which lane") {
  detail::thread_world world(3, 1s);
  CHECK(world.unheard().empty());
  const std::byte word{7};
  detail::mailbox& box = world.at(2, 1).from[0];
  box.lay_copy(&word, 1);
  CHECK(world.unheard().find("rank 0 said 1 bytes to rank 2 on lane 1") == 0);
  box.drop();
  CHECK(world.unheard().empty());
}

TEST_CASE("world: a desk for each rank on each lane, a mailbox there for each sender") {
  detail::thread_world world(3, 1s);
  CHECK(world.size == 3);
  CHECK(world.deadline == 1s);
  for (int rank = 0; rank < 3; ++rank)
    for (int lane = 0; lane < lane_count; ++lane) {
      CHECK(world.at(rank, lane).from.size() == 3);
      for (int other = 0; other < 3; ++other)
        for (int another = 0; another < lane_count; ++another)
          CHECK((&world.at(rank, lane) == &world.at(other, another)) ==
                (rank == other && lane == another));
    }
  CHECK(&world.table(0) != &world.table(1));
}
