// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/threads/waiting_room.hpp>

using namespace cordee::detail;
using namespace std::chrono_literals;

TEST_CASE("waiting_room: a waiter leaves when what it waits for is so, early or late") {
  for (const auto later : {0ms, 20ms}) {  // while it looks, and while it sleeps
    waiting_room room;
    std::atomic<bool> ready{false};
    std::thread other([&] {
      std::this_thread::sleep_for(later);
      ready = true;
      room.wake();
    });
    const auto start = steady_clock::now();
    room.wait(30s, [&] { return ready.load(); });
    CHECK(ready);
    CHECK(steady_clock::now() - start < 10s);
    other.join();
  }
}

TEST_CASE("waiting_room: every sleeper is woken") {
  waiting_room room;
  std::atomic<bool> ready{false};
  std::atomic<int> left{0};
  std::vector<std::thread> team;
  for (int k = 0; k < 4; ++k)
    team.emplace_back([&] {
      room.wait(30s, [&] { return ready.load(); });
      if (ready) ++left;
    });
  std::this_thread::sleep_for(20ms);
  const auto start = steady_clock::now();
  ready = true;
  room.wake();
  for (std::thread& t : team) t.join();
  CHECK(left == 4);
  CHECK(steady_clock::now() - start < 10s);
}

TEST_CASE("waiting_room: a waiter's patience ends, and what is so already is not waited for") {
  waiting_room room;
  for (const auto patience : {10us, 30'000us}) {  // shorter than a look, and longer
    const auto start = steady_clock::now();
    room.wait(patience, [] { return false; });
    CHECK(steady_clock::now() - start >= patience);
  }
  int looked = 0;
  room.wait(30s, [&] { return ++looked == 1; });
  CHECK(looked == 1);
}
