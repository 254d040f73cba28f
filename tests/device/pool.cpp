// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/pool.hpp>

using namespace cordee;

TEST_CASE("pool: each worker does its part once, time after time, and all are done on return") {
  for (const int workers : {1, 2, 3, 5, 8}) {
    pool team(workers);
    CHECK(team.size() == workers);
    std::vector<int> done(
        static_cast<std::size_t>(workers));  // not atomic: run orders the accesses
    for (int turn = 1; turn <= 200; ++turn) {
      team.run([&](int worker) { ++done[static_cast<std::size_t>(worker)]; });
      for (const int times : done) REQUIRE(times == turn);
    }
  }
}

TEST_CASE("pool: workers work at the same time, the caller among them") {
  pool team(3);
  const std::thread::id caller = std::this_thread::get_id();
  std::array<std::thread::id, 3> who;
  std::atomic<int> here{0};
  team.run([&](int worker) {
    who[static_cast<std::size_t>(worker)] = std::this_thread::get_id();
    for (++here; here.load() < 3;) std::this_thread::yield();  // nobody leaves before all are here
  });
  CHECK(who[0] == caller);
  CHECK((who[1] != caller && who[2] != caller && who[1] != who[2]));
}

TEST_CASE("pool: sleeping workers wake up for the next piece of work") {
  pool team(3);
  std::atomic<int> parts{0};
  for (int turn = 0; turn < 3; ++turn) {
    team.run([&](int) { ++parts; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than their patience
  }
  CHECK(parts == 9);
}

TEST_CASE("pool: it may end without work, and after work") {
  for (const int workers : {1, 2, 5})
    for (int repeat = 0; repeat < 20; ++repeat) {
      pool idle(workers);
      pool team(workers);
      std::atomic<int> parts{0};
      team.run([&](int) { ++parts; });
      REQUIRE(parts == workers);
    }
}
