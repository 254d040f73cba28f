// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where threads wait for each other: they look, yielding, and then they sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <cordee/core/clock.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// How long a waiter looks before it sleeps. It yields meanwhile: with more ranks than cores the
/// one that is waited for needs the core. Waking a sleeper costs about as much as this.
inline constexpr std::chrono::microseconds before_sleep{50};

class waiting_room {
 public:
  /// Returns when `ready`, which reads atomic things only, or after `patience`.
  template <class Ready>
  void wait(steady_clock::duration patience, const Ready& ready) {
    if (ready()) return;
    const auto start = steady_clock::now();
    const auto stop = start + std::min<steady_clock::duration>(patience, before_sleep);
    do {
      std::this_thread::yield();
      if (ready()) return;
    } while (steady_clock::now() < stop);
    std::unique_lock lock(mutex_);
    ++sleepers_;
    changed_.wait_until(lock, start + patience, ready);
    --sleepers_;
  }

  /// For whoever waits, after something has become ready. A waiter that counts itself asleep later
  /// than this looks sees it by itself.
  void wake() {
    if (sleepers_ == 0) return;
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }

 private:
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
