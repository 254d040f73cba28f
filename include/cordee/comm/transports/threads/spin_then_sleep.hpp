// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How threads wait for each other: they poll, yielding, and then sleep on a condition variable; at
// once where yields are slow (core/yield_policy.hpp).
#pragma once

#include <cordee/core/algorithm.hpp>
#include <cordee/core/atomic.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/condition.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/yield_policy.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// How long a waiter polls before it sleeps; waking a sleeper costs about as much. It yields
/// between polls: with more ranks than cores the awaited rank needs the core.
inline constexpr std::chrono::microseconds spin_time{50};

class spin_then_sleep {
 public:
  /// Returns when ready() is true, or after `timeout`. Requires that ready() reads atomics only.
  template <class Ready>
  void wait(std::chrono::steady_clock::duration timeout, const Ready& ready) {
    if (ready()) return;
    wait_for(timeout, &ready, [](const void* f) { return (*static_cast<const Ready*>(f))(); });
  }

  /// Wakes all waiters; called after the condition has become true. A waiter that is counted as a
  /// sleeper only after the count is read here evaluates ready() before it sleeps.
  void notify_all() {
    if (sleepers_ == 0) return;
    const core::scoped_lock lock(mutex_);
    changed_.notify_all();
  }

 private:
  // No template: several kinds of wait are compiled once.
  [[gnu::noinline]] void wait_for(std::chrono::steady_clock::duration timeout, const void* argument,
                                  bool (*ready)(const void*)) {
    const auto start = std::chrono::steady_clock::now();
    const auto spin_end = start + std::min<std::chrono::steady_clock::duration>(timeout, spin_time);
    thread_local core::yield_policy policy(256);
    while (policy.yield()) {
      if (ready(argument)) return;
      if (std::chrono::steady_clock::now() >= spin_end) break;
    }
    core::unique_lock lock(mutex_);
    ++sleepers_;
    while (!ready(argument) && std::chrono::steady_clock::now() < start + timeout)
      changed_.wait_until(lock, (start + timeout).time_since_epoch().count());
    --sleepers_;
  }

  core::atomic<int> sleepers_{0};
  core::mutex mutex_;
  core::condition changed_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
