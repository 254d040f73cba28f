// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/threads/desk.hpp>

using namespace cordee;
using namespace cordee::detail;
using namespace std::chrono_literals;

TEST_CASE("desk: a waiter leaves when what it waits for is told, early or late") {
  for (const auto later : {0ms, 20ms}) {  // while it looks, and while it sleeps
    desk d;
    bool ready = false;
    std::thread other([&] {
      std::this_thread::sleep_for(later);
      const std::scoped_lock lock(d.mutex);
      ready = true;
      d.tell();
    });
    std::unique_lock lock(d.mutex);
    d.wait(lock, thread_clock::now() + 10s, [&] { return ready; });
    CHECK(lock.owns_lock());
    CHECK(ready);
    lock.unlock();
    other.join();
  }
}

TEST_CASE("desk: a waiter leaves at its deadline, and holds the lock") {
  desk d;
  const auto until = thread_clock::now() + 30ms;
  std::unique_lock lock(d.mutex);
  d.wait(lock, until, [] { return false; });
  CHECK(thread_clock::now() >= until);
  CHECK(lock.owns_lock());
}

TEST_CASE("desk: who looks stops at once when it is so, or in time") {
  int looked = 0;
  look_for([&] { return ++looked == 3; }, thread_clock::now() + 10s);
  CHECK(looked == 3);
  const auto stop = thread_clock::now() + 5ms;
  look_for([] { return false; }, stop);
  CHECK(thread_clock::now() >= stop);
}
