// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads/world.hpp>

using namespace cordee;
using namespace cordee::detail::comm;
using namespace std::chrono_literals;

TEST_CASE("thread_world: the first failure is the cause, and later ones are not") {
  detail::comm::thread_world world(3, 1s);
  CHECK_FALSE(world.failed());
  world.fail(2, "the cause");
  world.fail(0, "a consequence");
  CHECK(world.failed());
  CHECK(world.first_failure.cause() == "rank 2: the cause");
}

TEST_CASE(
    "thread_world: end_of_wait_chain is the rank that waits for none, or the first one in a "
    "cycle") {
  detail::comm::thread_world world(4, 1s);
  CHECK(world.end_of_wait_chain(1, 0) == 1);
  world.endpoint_of(1, 0).awaited_peer = 2;
  world.endpoint_of(2, 0).awaited_peer = 3;
  CHECK(world.end_of_wait_chain(1, 0) == 3);
  CHECK(world.end_of_wait_chain(1, 1) == 1);  // another context
  world.endpoint_of(3, 0).awaited_peer = 1;
  CHECK(world.end_of_wait_chain(1, 0) == 1);
}

TEST_CASE(
    "thread_world: a server that owes a reply waits for the expected source of its requests") {
  detail::comm::thread_world world(3, 1s);
  world.endpoint_of(0, request_context).expected_source = 2;
  for (const int awaited : {-1, 0, 1}) {
    world.endpoint_of(0, request_context).awaited_peer = awaited;
    CHECK(world.end_of_wait_chain(0, reply_context) == 2);
  }
}

TEST_CASE("thread_world: leave wakes waiters on every context") {
  for (int context = 0; context < context_count; ++context) {
    detail::comm::thread_world world(2, 1s);
    const auto start = std::chrono::steady_clock::now();
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      world.leave(0);
    });
    world.endpoint_of(1, context).waiter.wait(30s, [&] { return world.has_left(0); });
    CHECK(world.has_left(0));
    CHECK_FALSE(world.has_left(1));
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    other.join();
  }
}

TEST_CASE("thread_world: unreceived names sender, receiver and context of a pending message") {
  detail::comm::thread_world world(3, 1s);
  CHECK(world.unreceived().empty());
  const std::byte byte{7};
  detail::comm::spsc_queue& queue = world.endpoint_of(2, 1).queues[0];
  queue.push_copy(&byte, 1);
  CHECK(world.unreceived().find("rank 0 sent 1 bytes to rank 2 on context 1") == 0);
  queue.pop();
  CHECK(world.unreceived().empty());
}

TEST_CASE("thread_world: each rank has an endpoint on each context, with a queue for each sender") {
  detail::comm::thread_world world(3, 1s);
  CHECK(world.size == 3);
  CHECK(world.deadline == 1s);
  for (int rank = 0; rank < 3; ++rank)
    for (int context = 0; context < context_count; ++context) {
      CHECK(world.endpoint_of(rank, context).queues.size() == 3);
      for (int other = 0; other < 3; ++other)
        for (int other_context = 0; other_context < context_count; ++other_context)
          CHECK((&world.endpoint_of(rank, context) == &world.endpoint_of(other, other_context)) ==
                (rank == other && context == other_context));
    }
  CHECK(&world.mean_of(0) != &world.mean_of(1));
}
