// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A condition variable without <condition_variable>, which since C++20 includes shared pointers,
// streams and locales (docs/compile_time.md).
#pragma once

#include <ctime>

#include <pthread.h>

#include <cordee/core/config.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/steady_time.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// As std::condition_variable, on the steady clock.
class condition {
 public:
  [[gnu::cold, gnu::noinline]] condition() {
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&condition_, &steady);
    pthread_condattr_destroy(&steady);
  }
  condition(const condition&) = delete;
  condition& operator=(const condition&) = delete;
  ~condition() { pthread_cond_destroy(&condition_); }

  void notify_all() noexcept { pthread_cond_broadcast(&condition_); }
  /// Requires that the calling thread holds `lock`. May return without a notification.
  void wait(unique_lock& lock) { pthread_cond_wait(&condition_, lock.native_handle()); }
  /// The same; returns by `end`, in nanoseconds of the steady clock (steady_nanoseconds).
  [[gnu::cold, gnu::noinline]] void wait_until(unique_lock& lock, std::int64_t end) {
    const timespec time = timespec_of(end);
    pthread_cond_timedwait(&condition_, lock.native_handle(), &time);
  }

 private:
  pthread_cond_t condition_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
