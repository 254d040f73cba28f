// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The samples of an update, read by several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/pool.hpp>

namespace cordee::inline CORDEE_ABI::detail::data {

/// Nanoseconds of a clock that only goes forward.
[[gnu::noinline]] inline std::int64_t nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline constexpr int most_sample_threads = 1024;

/// The threads that an option means: 0 the cores of this rank, if the data set draws its samples at
/// random, as decoded images do, and one otherwise. One for a number that is out of range.
[[gnu::cold, gnu::noinline]] inline int count_sample_threads(int option, bool drawn_at_random) {
  if (option == 0) return drawn_at_random ? std::max(1, cpu::default_workers()) : 1;
  return option > 0 && option <= most_sample_threads ? option : 1;
}

/// Threads that take samples as they come. Which thread makes a sample does not matter: it is
/// written to its own place.
class sample_threads {
 public:
  /// One task: makes sample `i` on thread `worker` of 0 .. size() - 1.
  using task = void (*)(void* object, std::size_t i, int worker);

  [[gnu::cold]] explicit sample_threads(int threads) : pool_(threads) {}

  [[nodiscard]] int size() const { return pool_.size(); }
  /// Nanoseconds in tasks, of all threads together.
  [[nodiscard]] std::int64_t busy() const { return busy_.load(std::memory_order_relaxed); }

  /// Calls make(object, i, worker) for i = 0 .. count - 1 and returns when all are done. If some
  /// throw, throws what the one of smallest i threw, whichever was first; later ones may be left.
  [[gnu::cold, gnu::noinline]] void run(std::size_t count, task make, void* object) {
    next_.store(0, std::memory_order_relaxed);
    failed_ = count;
    pool_.run([&](int worker) {
      const std::int64_t begin = nanoseconds();
      serve(count, make, object, worker);
      busy_.fetch_add(nanoseconds() - begin, std::memory_order_relaxed);
    });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  [[gnu::cold]] void serve(std::size_t count, task make, void* object, int worker) {
    for (std::size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count;) try {
        make(object, i, worker);
      } catch (...) {
        next_.store(count, std::memory_order_relaxed);  // samples before i have been taken
        const std::lock_guard lock(mutex_);
        if (i >= failed_) return;
        failed_ = i;
        failure_ = std::current_exception();
        return;
      }
  }

  device::pool pool_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::int64_t> busy_{0};
  std::mutex mutex_;
  std::size_t failed_ = 0;
  std::exception_ptr failure_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::data
