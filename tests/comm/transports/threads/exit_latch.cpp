// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads/exit_latch.hpp>

using namespace cordee;
using namespace std::chrono_literals;

TEST_CASE("exit_latch: missing_after returns the ranks that have not arrived, early if all have") {
  detail::comm::exit_latch ended(3);
  ended.arrive(1);
  CHECK(ended.missing_after(1ms) == std::vector{0, 2});
  ended.arrive(0);
  std::thread last([&] {
    std::this_thread::sleep_for(20ms);
    ended.arrive(2);
  });
  const auto start = std::chrono::steady_clock::now();
  CHECK(ended.missing_after(20s).empty());
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  ended.wait([] { return false; });
  last.join();
}

TEST_CASE("exit_latch: wait evaluates its stop condition whenever a rank arrives") {
  detail::comm::exit_latch ended(2);
  std::atomic<bool> failed = false;
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    failed = true;
    ended.arrive(1);
  });
  ended.wait([&] { return failed.load(); });
  CHECK(ended.missing_after(1ms) == std::vector{0});
  other.join();
}

TEST_CASE("exit_latch: wait evaluates its stop condition also where no rank arrives") {
  detail::comm::exit_latch ended(1);
  std::atomic<bool> failed = false, returned = false, arrived = false;
  std::thread stuck([&] {
    std::this_thread::sleep_for(20ms);
    failed = true;
    for (int k = 0; k < 2000 && !returned; ++k) std::this_thread::sleep_for(10ms);
    arrived = true;
    ended.arrive(0);
  });
  ended.wait([&] { return failed.load(); });
  CHECK_FALSE(arrived);
  returned = true;
  stuck.join();
}

TEST_CASE("exit_latch: missing_after grants the time in which ranks had no core, up to a limit") {
  using clock = std::chrono::steady_clock;
  detail::comm::exit_latch ended(1);
  const auto waited = [&](const auto& starved) {
    const auto start = clock::now();
    CHECK(ended.missing_after(10ms, starved) == std::vector{0});
    return clock::now() - start;
  };
  const auto start = clock::now();
  CHECK(waited([] { return 0ms; }) >= 10ms);
  CHECK(waited([] { return 30ms; }) >= 40ms);
  CHECK(waited([] { return 1h; }) >= 60ms);
  CHECK(clock::now() - start < 20s);  // not an hour

  ended.arrive(0);
  CHECK(ended.missing_after(1h, [] { return 1h; }).empty());
}
