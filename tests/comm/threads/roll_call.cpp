// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/threads/roll_call.hpp>

using namespace cordee;
using namespace std::chrono_literals;

TEST_CASE("roll_call: who has not signed is named, and nobody is waited for in vain") {
  detail::roll_call roll(3);
  roll.sign(1);
  CHECK(roll.missing(1ms) == std::vector{0, 2});
  roll.sign(0);
  std::thread last([&] {
    std::this_thread::sleep_for(20ms);
    roll.sign(2);
  });
  const auto start = std::chrono::steady_clock::now();
  CHECK(roll.missing(20s).empty());
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  roll.wait([] { return false; });
  last.join();
}

TEST_CASE("roll_call: one that signs lets the others look whether it is enough") {
  detail::roll_call roll(2);
  std::atomic<bool> failed = false;
  std::thread one([&] {
    std::this_thread::sleep_for(20ms);
    failed = true;
    roll.sign(1);
  });
  roll.wait([&] { return failed.load(); });
  CHECK(roll.missing(1ms) == std::vector{0});
  one.join();
}
