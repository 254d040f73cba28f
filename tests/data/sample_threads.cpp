// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/sample_threads.hpp>

using cordee::detail::data::sample_threads;

namespace {

struct counted {
  explicit counted(std::size_t n) : calls(n) {}
  std::vector<std::atomic<int>> calls;
  int threads = 8;
  std::size_t failing_from = ~std::size_t{0};

  static void make(void* self, std::size_t i, int worker) {
    auto& c = *static_cast<counted*>(self);
    ++c.calls[i];
    if (worker < 0 || worker >= c.threads) ++c.calls[i];
    if (i < c.failing_from) return;
    if (i % 2 == 1) std::this_thread::yield();
    throw std::runtime_error(std::to_string(i));
  }
};

}  // namespace

TEST_CASE("sample_threads make each sample once, whatever their number") {
  for (const int threads : {1, 2, 3, 8}) {
    sample_threads team(threads);
    CHECK(team.size() == threads);
    for (const std::size_t count : {0u, 1u, 2u, 7u, 100u}) {
      counted all(count);
      all.threads = threads;
      team.run(count, counted::make, &all);
      for (const auto& calls : all.calls) CHECK(calls == 1);
    }
    CHECK(team.busy() > 0);
  }
}

TEST_CASE("sample_threads throw what the first sample in order threw, and serve again") {
  for (const int threads : {1, 2, 5})
    for (int round = 0; round < 50; ++round) {
      sample_threads team(threads);
      counted all(40);
      all.failing_from = static_cast<std::size_t>(round % 20);
      try {
        team.run(40, counted::make, &all);
        FAIL("nothing was thrown");
      } catch (const std::runtime_error& e) {
        CHECK(e.what() == std::to_string(round % 20));
      }
      counted next(10);
      team.run(10, counted::make, &next);
      for (const auto& calls : next.calls) CHECK(calls == 1);
    }
}

TEST_CASE("sample_threads: a later sample that throws after the first one does not replace it") {
  struct pair {
    std::atomic<bool> second_began{false}, first_throws{false};

    static void make(void* self, std::size_t i, int) {
      auto& p = *static_cast<pair*>(self);
      if (i == 0) {
        while (!p.second_began) std::this_thread::yield();
        p.first_throws = true;
      } else {
        p.second_began = true;
        while (!p.first_throws) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      throw std::runtime_error(std::to_string(i));
    }
  };
  sample_threads team(2);
  pair both;
  CHECK_THROWS_WITH(team.run(2, pair::make, &both), "0");
}
