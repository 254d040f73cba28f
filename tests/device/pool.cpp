// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/pool.hpp>

using namespace cordee;
using namespace cordee::detail::device;

TEST_CASE(
    "pool: run calls the function once on each worker and returns when all are done, repeatedly") {
  for (const int workers : {1, 2, 3, 5, 8}) {
    pool workers_pool(workers);
    CHECK(workers_pool.size() == workers);
    std::vector<int> done(
        static_cast<std::size_t>(workers));  // not atomic: run orders the accesses
    for (int round = 1; round <= 200; ++round) {
      workers_pool.run([&](int worker) { ++done[static_cast<std::size_t>(worker)]; });
      for (const int times : done) REQUIRE(times == round);
    }
  }
}

TEST_CASE("pool: workers run concurrently, the caller is worker 0") {
  pool workers_pool(3);
  const std::thread::id caller = std::this_thread::get_id();
  std::array<std::thread::id, 3> ids;
  std::atomic<int> entered{0};
  workers_pool.run([&](int worker) {
    ids[static_cast<std::size_t>(worker)] = std::this_thread::get_id();
    for (++entered; entered.load() < 3;) std::this_thread::yield();  // until all have entered
  });
  CHECK(ids[0] == caller);
  CHECK((ids[1] != caller && ids[2] != caller && ids[1] != ids[2]));
}

TEST_CASE("pool: sleeping workers wake up for the next run") {
  pool workers_pool(3);
  std::atomic<int> calls{0};
  for (int round = 0; round < 3; ++round) {
    workers_pool.run([&](int) { ++calls; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than they spin
  }
  CHECK(calls == 9);
}

TEST_CASE("pool: destruction without a run and after one") {
  for (const int workers : {1, 2, 5})
    for (int repeat = 0; repeat < 20; ++repeat) {
      pool idle(workers);
      pool workers_pool(workers);
      std::atomic<int> calls{0};
      workers_pool.run([&](int) { ++calls; });
      REQUIRE(calls == workers);
    }
}
