// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where one rank of a process waits on one lane, and the parcels that are laid there.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail {

using thread_clock = std::chrono::steady_clock;

/// How long a waiter looks before it sleeps. It yields meanwhile: with more ranks than cores the
/// one that is waited for needs the core. Waking a sleeper costs about as much as this.
inline constexpr std::chrono::microseconds before_sleep{50};

/// Yields until `ready` or `stop`.
template <class Ready>
void look_for(const Ready& ready, thread_clock::time_point stop) {
  while (!ready() && thread_clock::now() < stop) std::this_thread::yield();
}

struct parcel {
  const std::byte* data;
  std::size_t size;
  bool taken = false, done = false;  // under the receiver's, the sender's desk
};

struct desk {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<unsigned> changes{0};
  std::vector<std::deque<parcel*>> inbox;  // one a sender, in order

  /// Something here is new. Under the mutex.
  void tell() {
    ++changes;
    changed.notify_all();
  }

  /// Returns when `ready` (true) or at `until`; the lock is held at both ends.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, thread_clock::time_point until,
            const Ready& ready) {
    const auto stop = std::min(until, thread_clock::now() + before_sleep);
    while (!ready() && thread_clock::now() < stop) {
      const unsigned seen = changes;
      lock.unlock();
      look_for([&] { return changes != seen; }, stop);
      lock.lock();
    }
    changed.wait_until(lock, until, ready);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail
