// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>
#include <sched.h>

#include <cordee/comm/threads/run_delay.hpp>

using namespace std::chrono_literals;
using cordee::detail::comm::run_delay;

namespace {

// Two threads compute on one core for this long; then f().
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
    std::this_thread::sleep_for(time);
  });
  end = true;
  for (std::thread& t : threads) t.join();
}

}  // namespace

TEST_CASE("run_delay: of two threads on one core, one lacks it for half of the time") {
  share_a_core(400ms, [](const auto& compute) {
    const run_delay delay;
    compute();
    // Together they have 400 ms of the core at most, of 800; 100 ms are for their start.
    CHECK(delay.longest() >= 100ms);
  });
}

TEST_CASE("run_delay: counts from its construction") {
  share_a_core(100ms, [](const auto& compute) {
    const run_delay before;
    compute();
    const run_delay after;
    CHECK(after.longest() <= before.longest());
  });
}
