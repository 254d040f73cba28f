// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The samples of an update, read by several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include <cordee/core/atomic.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/steady_time.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/pool.hpp>

namespace cordee::inline CORDEE_ABI::detail::data {

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
  [[nodiscard]] std::int64_t busy() const { return busy_.load(core::memory_order::relaxed); }

  /// Calls make(object, i, worker) for i = 0 .. count - 1 and returns when all are done. If some
  /// throw, throws what the one of smallest i threw, whichever was first; later ones may be left.
  [[gnu::cold, gnu::noinline]] void run(std::size_t count, task make, void* object) {
    next_.store(0, core::memory_order::relaxed);
    failed_ = count;
    pool_.run([&](int worker) {
      const std::int64_t begin = core::steady_nanoseconds();
      serve(count, make, object, worker);
      busy_.fetch_add(core::steady_nanoseconds() - begin, core::memory_order::relaxed);
    });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  [[gnu::cold]] void serve(std::size_t count, task make, void* object, int worker) {
    for (std::size_t i; (i = next_.fetch_add(1, core::memory_order::relaxed)) < count;) try {
        make(object, i, worker);
      } catch (...) {
        next_.store(count, core::memory_order::relaxed);  // samples before i have been taken
        const core::scoped_lock lock(mutex_);
        if (i >= failed_) return;
        failed_ = i;
        failure_ = std::current_exception();
        return;
      }
  }

  device::pool pool_;
  core::atomic<std::size_t> next_{0};
  core::atomic<std::int64_t> busy_{0};
  core::mutex mutex_;
  std::size_t failed_ = 0;
  std::exception_ptr failure_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::data
