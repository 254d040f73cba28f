// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/testing/concurrently.hpp>

using namespace cordee;
using cordee::detail::testing::concurrently;

namespace {
struct one_context_at_a_time : self_comm {
  static constexpr bool concurrent_contexts = false;
};
}  // namespace

TEST_CASE("concurrently: where contexts are not concurrent g follows f, on the same thread") {
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  concurrently(
      one_context_at_a_time{},
      [&] {
        CHECK(std::this_thread::get_id() == caller);
        CHECK(calls++ == 0);
      },
      [&] {
        CHECK(std::this_thread::get_id() == caller);
        CHECK(calls++ == 1);
      });
  CHECK(calls == 2);
  CHECK_THROWS_AS(
      concurrently(
          one_context_at_a_time{}, [&] { ++calls; }, [] { throw std::runtime_error("g"); }),
      std::runtime_error);
  CHECK(calls == 3);
}

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
