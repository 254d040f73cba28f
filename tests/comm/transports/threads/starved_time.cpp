// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>
#include <sched.h>

#include <cordee/comm/transports/threads/starved_time.hpp>

using namespace std::chrono_literals;
using cordee::detail::comm::starved_time;

namespace {

// Two threads compute on one core from the first compute() on, each of which is a 20th of `time`.
template <class F>
void share_a_core(std::chrono::milliseconds time, const F& f) {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &allowed)) CPU_SET(core, &one);
  std::atomic<int> pinned{0};
  std::atomic<bool> begin{false}, end{false};
  std::array<std::thread, 2> threads;
  for (std::thread& t : threads)
    t = std::thread([&] {
      sched_setaffinity(0, sizeof one, &one);
      ++pinned;
      while (!begin) std::this_thread::sleep_for(1ms);
      while (!end) {
      }
    });
  while (pinned < 2) std::this_thread::sleep_for(1ms);
  f([&] {
    begin = true;
    std::this_thread::sleep_for(time / 20);
  });
  end = true;
  for (std::thread& t : threads) t.join();
}

}  // namespace

TEST_CASE("starved_time: of two threads on one core, one lacks it for half of the time") {
  share_a_core(400ms, [](const auto& compute) {
    starved_time time;
    for (int k = 0; k < 20; ++k) {
      compute();
      (void)time.longest();
    }
    // Together they have 400 ms of the core at most, of 800; a quarter is for their start.
    CHECK(time.longest() >= 100ms);
  });
}

TEST_CASE("starved_time: the thread that looks does not count, though it runs whenever it does") {
  starved_time time;
  for (int k = 0; k < 10; ++k) {
    std::this_thread::sleep_for(20ms);
    (void)time.longest();
  }
  CHECK(time.longest() < 200ms);  // of at least 200 that have passed
}
