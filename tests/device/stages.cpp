// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/stages.hpp>

using namespace cordee::detail;
using device::stages;

namespace {

/// Stages of 1, 2, ... parts; each part checks that the stage before has written all numbers, and
/// then writes its own. Returns the number of parts that ran too early or not once.
int wrong_parts(device::pool& pool, stages& all, std::size_t workers, std::size_t count) {
  std::vector<std::size_t> numbers(7), next(7), runs(count * workers);
  std::atomic<int> wrong{0};
  all.reset();
  pool.run([&](int number) {
    stages::worker worker(all, static_cast<std::size_t>(number));
    for (std::size_t stage = 0; stage < count; ++stage) {
      auto& from = stage % 2 == 0 ? numbers : next;
      auto& to = stage % 2 == 0 ? next : numbers;
      worker.run(1 + stage % workers, [&](core::equal_part part) {
        ++runs[stage * workers + part.index];
        for (const std::size_t n : from) wrong += n != stage;
        for (std::size_t i = part.first(to.size()); i < part.last(to.size()); ++i)
          to[i] = stage + 1;
      });
    }
  });
  for (std::size_t i = 0; i < runs.size(); ++i)
    wrong += runs[i] != (i % workers <= i / workers % workers ? 1 : 0);
  return wrong;
}

/// Whether this becomes true soon.
template <class Ready>
bool awaits(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!ready() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return ready();
}

}  // namespace

TEST_CASE("stages: each part runs once, after all parts of the stage before") {
  for (const std::size_t workers : {1u, 2u, 3u, 5u, 8u}) {
    device::pool pool(static_cast<int>(workers));
    stages all(workers);
    for (const std::size_t count : {0u, 1u, 300u, 20u})
      CHECK(wrong_parts(pool, all, workers, count) == 0);
  }
}

TEST_CASE("stages: workers that come late are not awaited") {
  for (const std::size_t workers : {2u, 3u, 8u}) {
    device::pool pool(static_cast<int>(workers));
    stages all(workers);
    std::atomic<bool> done{false};
    std::atomic<int> gave_up{0}, parts{0};
    pool.run([&](int number) {
      if (number > 0 && !awaits([&] { return done.load(); })) ++gave_up;
      stages::worker worker(all, static_cast<std::size_t>(number));
      for (int stage = 0; stage < 5; ++stage)
        worker.run(workers, [&](core::equal_part) { ++parts; });
      if (number == 0) done = true;
    });
    CHECK(gave_up == 0);
    CHECK(parts == static_cast<int>(5 * workers));
  }
}

TEST_CASE("stages: a worker takes the part of its own number first, and no part is run twice") {
  for (const int workers : {2, 3, 8}) {
    device::pool pool(workers);
    stages all(static_cast<std::size_t>(workers));
    std::atomic<int> parts{0}, own{0}, missing{0};
    pool.run([&](int number) {
      stages::worker worker(all, static_cast<std::size_t>(number));
      worker.run(static_cast<std::size_t>(workers), [&](core::equal_part part) {
        own += part.index == static_cast<std::size_t>(number);
        ++parts;
        missing += !awaits([&] { return parts >= workers; });  // no worker has two
      });
    });
    CHECK(missing == 0);
    CHECK(own == workers);
    CHECK(parts == workers);
  }
}

TEST_CASE("stages: a part that takes long is awaited") {
  device::pool pool(2);
  stages all(2);
  std::atomic<int> inside{0}, missing{0}, early{0};
  std::atomic<bool> ended{false};
  pool.run([&](int number) {
    stages::worker worker(all, static_cast<std::size_t>(number));
    worker.run(2, [&](core::equal_part part) {
      ++inside;
      missing += !awaits([&] { return inside == 2; });
      if (part.index == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
    });
    worker.run(2, [&](core::equal_part) { early += !ended; });
  });
  CHECK(missing == 0);
  CHECK(early == 0);
}

TEST_CASE("stages: a part that throws ends the section with its exception, and no worker waits") {
  for (const int workers : {1, 2, 3, 5, 8})
    for (int bad = 0; bad < workers; ++bad) {
      const auto count = static_cast<std::size_t>(workers);
      device::pool pool(workers);
      stages all(count);
      std::atomic<int> after{0};
      const auto section = [&](bool fails) {
        all.reset();
        pool.run([&](int number) {
          stages::worker worker(all, static_cast<std::size_t>(number));
          worker.run(count, [&](core::equal_part part) {
            if (fails && part.index == static_cast<std::size_t>(bad)) throw bad;
          });
          worker.run(count, [&](core::equal_part) { ++after; });
        });
      };
      CHECK_THROWS_AS(section(true), int);
      CHECK(after == (workers == 1 ? 0 : workers));
      after = 0;
      CHECK_NOTHROW(section(false));
      CHECK(after == workers);
    }
}
