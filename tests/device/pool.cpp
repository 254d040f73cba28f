// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
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

TEST_CASE(
    "pool: an exception of any worker, or of several, leaves run when all have returned, and the "
    "workers run again") {
  for (const int workers : {1, 2, 3, 5, 8}) {
    pool workers_pool(workers);
    std::vector<int> done(
        static_cast<std::size_t>(workers));  // not atomic: run orders the accesses
    int rounds = 0;
    const auto run = [&](auto throws) {
      ++rounds;
      workers_pool.run([&](int worker) {
        if (throws(worker)) throw std::runtime_error(std::to_string(worker));
        // Longer than an exception takes to leave.
        if (rounds < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        done[static_cast<std::size_t>(worker)] = rounds;
      });
    };
    const auto check = [&](auto throws) {
      int thrown = -1;
      try {
        run(throws);
      } catch (const std::runtime_error& e) {
        thrown = std::stoi(e.what());
      }
      REQUIRE(thrown >= 0);
      CHECK(throws(thrown));
      for (int k = 0; k < workers; ++k)
        REQUIRE(done[static_cast<std::size_t>(k)] == (throws(k) ? rounds - 1 : rounds));
      CHECK_NOTHROW(run([](int) { return false; }));
      for (const int round : done) REQUIRE(round == rounds);
    };
    for (int bad = 0; bad < workers; ++bad) check([&](int worker) { return worker == bad; });
    for (int repeat = 0; repeat < 20; ++repeat) {
      check([](int) { return true; });
      check([](int worker) { return worker % 2 == 0; });
    }
  }
}
