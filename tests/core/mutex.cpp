// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include <doctest/doctest.h>

#include <cordee/core/mutex.hpp>
#include <cordee/core/thread.hpp>

using namespace cordee::detail;

namespace {

struct locked_counter {
  void count() {
    for (int k = 0; k < 100'000; ++k) {
      const core::scoped_lock lock(mutex);
      ++sum;
    }
  }
  core::mutex mutex;
  long sum = 0;
};

bool is_locked(core::mutex& mutex) {
  const int result = pthread_mutex_trylock(mutex.native_handle());
  if (result == 0) mutex.unlock();
  return result == EBUSY;
}

}  // namespace

TEST_CASE("mutex: no increment of two threads is lost") {
  locked_counter c;
  core::thread other = core::start_thread<&locked_counter::count>(c);
  c.count();
  other.join();
  CHECK(c.sum == 200'000);
}

TEST_CASE("mutex: locks hold it while they live, a unique_lock but between unlock and lock") {
  core::mutex mutex;
  CHECK_FALSE(is_locked(mutex));
  {
    const core::scoped_lock lock(mutex);
    CHECK(is_locked(mutex));
  }
  CHECK_FALSE(is_locked(mutex));
  {
    core::unique_lock lock(mutex);
    CHECK(is_locked(mutex));
    lock.unlock();
    CHECK_FALSE(is_locked(mutex));
    lock.lock();
    CHECK(is_locked(mutex));
  }
  CHECK_FALSE(is_locked(mutex));
  {
    core::unique_lock lock(mutex);
    lock.unlock();
  }
  CHECK_FALSE(is_locked(mutex));
}
