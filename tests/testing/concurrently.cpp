// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/self_comm.hpp>
#include <cordee/testing/concurrently.hpp>

using namespace cordee;
using cordee::detail::testing::concurrently;

TEST_CASE("concurrently: both run, and what g throws is thrown when f has ended") {
  std::atomic<bool> f_ended{false}, g_ended{false};
  concurrently(
      self_comm{},
      [&] {
        for (int k = 0; k < 30'000 && !g_ended; ++k)  // g runs beside it
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        f_ended = g_ended.load();
      },
      [&] { g_ended = true; });
  CHECK(f_ended);
  f_ended = false;
  CHECK_THROWS_AS(concurrently(
                      self_comm{}, [&] { f_ended = true; }, [] { throw std::runtime_error("g"); }),
                  std::runtime_error);
  CHECK(f_ended);
}
