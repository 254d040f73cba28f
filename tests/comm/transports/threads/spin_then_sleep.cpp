// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads/spin_then_sleep.hpp>

using namespace cordee::detail::comm;
using namespace std::chrono_literals;

TEST_CASE(
    "spin_then_sleep: wait returns when its condition is true, while it spins and while it "
    "sleeps") {
  for (const auto delay : {0ms, 20ms}) {  // within the spin time, and after it
    spin_then_sleep waiter;
    std::atomic<bool> ready{false};
    std::thread other([&] {
      std::this_thread::sleep_for(delay);
      ready = true;
      waiter.notify_all();
    });
    const auto start = std::chrono::steady_clock::now();
    waiter.wait(30s, [&] { return ready.load(); });
    CHECK(ready);
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    other.join();
  }
}

TEST_CASE("spin_then_sleep: notify_all wakes every sleeper") {
  spin_then_sleep waiter;
  std::atomic<bool> ready{false};
  std::atomic<int> returned{0};
  std::vector<std::thread> sleepers;
  for (int k = 0; k < 4; ++k)
    sleepers.emplace_back([&] {
      waiter.wait(30s, [&] { return ready.load(); });
      if (ready) ++returned;
    });
  std::this_thread::sleep_for(20ms);
  const auto start = std::chrono::steady_clock::now();
  ready = true;
  waiter.notify_all();
  for (std::thread& t : sleepers) t.join();
  CHECK(returned == 4);
  CHECK(std::chrono::steady_clock::now() - start < 10s);
}

TEST_CASE("spin_then_sleep: wait returns at the timeout, and at once where the condition is true") {
  spin_then_sleep waiter;
  for (const auto timeout : {10us, 30'000us}) {  // shorter than the spin time, and longer
    const auto start = std::chrono::steady_clock::now();
    waiter.wait(timeout, [] { return false; });
    CHECK(std::chrono::steady_clock::now() - start >= timeout);
  }
  int evaluations = 0;
  waiter.wait(30s, [&] { return ++evaluations == 1; });
  CHECK(evaluations == 1);
}
