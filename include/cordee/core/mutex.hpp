// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A mutex of POSIX: what the library uses of <mutex>, which since C++20 includes durations, system
// errors and tuples (docs/compile_time.md).
#pragma once

#include <pthread.h>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// As std::mutex.
class mutex {
 public:
  mutex() = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock() noexcept { pthread_mutex_lock(&mutex_); }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }
  [[nodiscard]] pthread_mutex_t* native_handle() noexcept { return &mutex_; }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// As std::scoped_lock of one mutex.
class scoped_lock {
 public:
  explicit scoped_lock(mutex& m) noexcept : mutex_(m) { m.lock(); }
  scoped_lock(const scoped_lock&) = delete;
  scoped_lock& operator=(const scoped_lock&) = delete;
  ~scoped_lock() { mutex_.unlock(); }

 private:
  mutex& mutex_;
};

/// As std::unique_lock that locks where it is made.
class unique_lock {
 public:
  explicit unique_lock(mutex& m) noexcept : mutex_(m) { lock(); }
  unique_lock(const unique_lock&) = delete;
  unique_lock& operator=(const unique_lock&) = delete;
  ~unique_lock() {
    if (owns_) mutex_.unlock();
  }

  void lock() noexcept {
    mutex_.lock();
    owns_ = true;
  }
  void unlock() noexcept {
    owns_ = false;
    mutex_.unlock();
  }
  [[nodiscard]] pthread_mutex_t* native_handle() const noexcept { return mutex_.native_handle(); }

 private:
  mutex& mutex_;
  bool owns_ = false;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
