// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/core/clock.hpp>
#include <cordee/core/condition.hpp>
#include <cordee/core/thread.hpp>

#ifdef _GLIBCXX_CONDITION_VARIABLE
#define CONDITION_VARIABLE_INCLUDED true
#else
#define CONDITION_VARIABLE_INCLUDED false
#endif

#include <cerrno>

#include <doctest/doctest.h>

using namespace cordee::detail;

namespace {

struct counted_turns {
  void answer() {
    core::unique_lock lock(mutex);
    for (int k = 0; k < 100; ++k) {
      while (turn % 2 == 0) changed.wait(lock);
      ++turn;
      changed.notify_all();
    }
  }
  core::mutex mutex;
  core::condition changed;
  int turn = 0;
};

}  // namespace

TEST_CASE("condition: two threads take turns, in whatever kind of wait") {
  counted_turns turns;
  core::thread other = core::start_thread<&counted_turns::answer>(turns);
  {
    core::unique_lock lock(turns.mutex);
    for (int k = 0; k < 100; ++k) {
      ++turns.turn;
      turns.changed.notify_all();
      while (turns.turn % 2 == 1)
        if (k % 2 == 0)
          turns.changed.wait(lock);
        else
          turns.changed.wait_until(lock, core::steady_nanoseconds() + 60'000'000'000);
    }
  }
  other.join();
  CHECK(turns.turn == 200);
}

TEST_CASE("condition: a wait without notification ends at its time, with the lock held") {
  core::mutex mutex;
  core::condition never;
  core::unique_lock lock(mutex);
  const std::int64_t start = core::steady_nanoseconds(), end = start + 3'000'000;
  while (core::steady_nanoseconds() < end) never.wait_until(lock, end);
  CHECK(pthread_mutex_trylock(mutex.native_handle()) == EBUSY);
  CHECK(core::steady_nanoseconds() - start < 30'000'000'000);
  never.wait_until(lock, start);  // in the past
}

TEST_CASE("condition: the header does without <condition_variable>") {
  CHECK_FALSE(CONDITION_VARIABLE_INCLUDED);
}
