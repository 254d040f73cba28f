// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/core/condition.hpp>

#ifdef _GLIBCXX_CONDITION_VARIABLE
#define CONDITION_VARIABLE_INCLUDED true
#else
#define CONDITION_VARIABLE_INCLUDED false
#endif

#include <doctest/doctest.h>

using namespace cordee::detail;

namespace {

struct counted_turns {
  void answer() {
    std::unique_lock lock(mutex);
    for (int k = 0; k < 100; ++k) {
      while (turn % 2 == 0) changed.wait(lock);
      ++turn;
      changed.notify_all();
    }
  }
  std::mutex mutex;
  core::condition changed;
  int turn = 0;
};

}  // namespace

TEST_CASE("condition: two threads take turns, in whatever kind of wait") {
  counted_turns turns;
  core::thread other = core::start_thread<&counted_turns::answer>(turns);
  {
    std::unique_lock lock(turns.mutex);
    for (int k = 0; k < 100; ++k) {
      ++turns.turn;
      turns.changed.notify_all();
      while (turns.turn % 2 == 1)
        if (k % 2 == 0)
          turns.changed.wait(lock);
        else
          turns.changed.wait_for(lock, std::chrono::seconds(60));
    }
  }
  other.join();
  CHECK(turns.turn == 200);
}

TEST_CASE("condition: a wait without notification ends at its time, with the lock held") {
  std::mutex mutex;
  core::condition never;
  std::unique_lock lock(mutex);
  const auto start = std::chrono::steady_clock::now(), end = start + std::chrono::milliseconds(3);
  while (std::chrono::steady_clock::now() < end) never.wait_until(lock, end);
  CHECK(lock.owns_lock());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  never.wait_until(lock, start);  // in the past
}

TEST_CASE("condition: the header does without <condition_variable>") {
  CHECK_FALSE(CONDITION_VARIABLE_INCLUDED);
}
