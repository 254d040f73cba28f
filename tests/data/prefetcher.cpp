// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Through a data set: tests/data/loader.cpp.
#include <atomic>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/data/prefetcher.hpp>

using namespace cordee;
using detail::data::prefetcher;
using detail::data::rank_update;

namespace {

/// Fills labels with the step; throws at one step.
struct counting_source {
  std::int64_t failing_step = -1;
  std::atomic<int> fills{0};
  std::atomic<std::thread::id> filling_thread{};

  static void fill(void* self, rank_update& update) {
    auto& source = *static_cast<counting_source*>(self);
    ++source.fills;
    source.filling_thread = std::this_thread::get_id();
    if (update.step == source.failing_step) throw std::runtime_error("cannot fill");
    update.labels.resize(3);
    for (std::int32_t& label : update.labels) label = static_cast<std::int32_t>(update.step);
  }
};

}  // namespace

TEST_CASE("prefetcher: the update of a step stays unchanged while the next one is filled") {
  counting_source source;
  prefetcher updates(&source, counting_source::fill);
  for (int step = 0; step < 20; ++step) {
    const rank_update& update = updates.take(step);
    while (source.fills < step + 2) std::this_thread::yield();  // the next one is requested
    CHECK(update.step == step);
    for (const std::int32_t label : update.labels) CHECK(label == step);
  }
  CHECK(source.filling_thread.load() != std::this_thread::get_id());
}

TEST_CASE("prefetcher: each step in sequence is filled once, a step out of sequence again") {
  counting_source source;
  {
    prefetcher updates(&source, counting_source::fill);
    CHECK(source.fills == 0);  // no thread before the first take
    for (const std::int64_t step : {0, 1, 2}) CHECK(updates.take(step).step == step);
    for (const std::int64_t step : {7, 8, 3}) CHECK(updates.take(step).step == step);
  }
  // 0, 1, 2, 7, 8, 3; and 3, 9 and 4 where the thread had begun them before they were not needed.
  CHECK(source.fills >= 6);
  CHECK(source.fills <= 9);
}

TEST_CASE("prefetcher: take throws what fill threw, at each call, and other steps are filled") {
  counting_source source{.failing_step = 1};
  prefetcher updates(&source, counting_source::fill);
  CHECK(updates.take(0).step == 0);
  for (int attempt = 0; attempt < 2; ++attempt)
    CHECK_THROWS_AS(updates.take(1), std::runtime_error);
  CHECK(updates.take(2).labels[0] == 2);
  CHECK(updates.take(0).step == 0);  // prefetches 1, which fails
  CHECK(updates.take(5).step == 5);
}

TEST_CASE("prefetcher: with a depth, as many updates are filled ahead, and no more") {
  for (const int depth : {1, 2, 5}) {
    counting_source source;
    prefetcher updates(&source, counting_source::fill, depth);
    CHECK(updates.depth() == depth);
    for (int step = 0; step < 20; ++step) {
      const rank_update& update = updates.take(step);
      while (source.fills < step + 1 + depth) std::this_thread::yield();
      CHECK(update.step == step);
      for (const std::int32_t label : update.labels) CHECK(label == step);
      CHECK(source.fills == step + 1 + depth);
    }
  }
}

TEST_CASE("prefetcher: updates before one that fails are given, in every depth") {
  for (const int depth : {1, 2, 5}) {
    counting_source source;
    source.failing_step = 3;
    prefetcher updates(&source, counting_source::fill, depth);
    for (int step = 0; step < 3; ++step) CHECK(updates.take(step).step == step);
    for (int attempt = 0; attempt < 3; ++attempt)
      CHECK_THROWS_AS(updates.take(3), std::runtime_error);
    source.failing_step = -1;
    for (int step = 3; step < 9; ++step) CHECK(updates.take(step).labels[0] == step);
  }
}
