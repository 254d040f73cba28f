// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A thread pool for one parallel section at a time.
//
// `parallel_chunks` (cpu.hpp) divides the work statically by the number of workers,
// `parallel_dynamic` distributes tasks to free workers. Reductions divide their work by a fixed
// grid, so that results depend neither on the number of workers nor on timing. No OpenMP:
// ThreadSanitizer does not support it, and consumers would have to compile with its flag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include <cordee/core/atomic.hpp>
#include <cordee/core/condition.hpp>
#include <cordee/core/config.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/owned_array.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/core/yield_policy.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// Spin-then-sleep: called after the `polls`-th poll of a variable that another thread will write;
/// pauses or yields, and returns whether to poll again rather than sleep. Waking a thread takes 30
/// to 60 microseconds, so a waiting thread spins about as long: first with pauses, then with
/// yields. After a yield that took a time slice, 255 waits sleep after the pauses: where threads
/// compete for cores each yield may take one, and on idle cores they lose less than three.
inline bool keep_spinning(int polls) {
  constexpr int pauses = 256, yields = 128;
  if (polls > pauses + yields) return false;
  if (polls > pauses) {
    thread_local core::yield_policy policy(256);
    return policy.yield();
  }
#if defined(__x86_64__)
  __builtin_ia32_pause();  // without it a wake-up was measured at 6 us
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
  return true;
}

/// Threads that sleep until a variable changes.
class sleepers {
 public:
  /// Returns when `variable` is not `value`.
  [[gnu::cold, gnu::noinline]] void wait(const core::atomic<std::uint32_t>& variable,
                                         std::uint32_t value) {
    core::unique_lock lock(mutex_);
    ++count_;
    while (variable == value) changed_.wait(lock);
    --count_;
  }
  /// Called after the variable has changed, by an operation of seq_cst. A thread that is counted
  /// only after the count is read here reads the variable before it sleeps.
  void wake() {
    if (count_ != 0) wake_all();
  }

 private:
  [[gnu::cold, gnu::noinline]] void wake_all() {
    const core::scoped_lock lock(mutex_);
    changed_.notify_all();
  }

  core::atomic<int> count_{0};
  core::mutex mutex_;
  core::condition changed_;
};

/// `size()` workers, of which the calling thread is worker 0; the threads start with the first run.
/// Requires one caller at a time.
class pool {
 public:
  [[gnu::cold]] explicit pool(int workers)
      : workers_(workers), threads_(static_cast<std::size_t>(workers - 1)) {}
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  [[gnu::cold]] ~pool() {
    work_ = nullptr;
    start_generation();
    for (int k = 0; k < running_; ++k) thread(k).join();
  }

  [[nodiscard]] int size() const { return workers_; }

  /// Calls f(worker) once on every worker; blocks until all have returned, then throws the first of
  /// the exceptions they threw, if any. Throws as well, before any is called, if a thread could
  /// not be started. The pool can be used after either.
  template <class F>
  void run(const F& f) {
    if (workers_ == 1) return f(0);
    run([](const void* context, int worker) { (*static_cast<const F*>(context))(worker); }, &f);
  }

 private:
  // Not a template, so that starting threads and waiting for them is compiled once.
  [[gnu::noinline]] void run(void (*work)(const void*, int), const void* context) {
    for (; running_ < workers_ - 1; ++running_)
      thread(running_) = detail::core::start_thread<&pool::serve>(*this);
    context_ = context;
    work_ = work;
    busy_.store(static_cast<std::uint32_t>(workers_ - 1), core::memory_order::relaxed);
    start_generation();
    call(0);
    std::uint32_t left = 0;
    for (int polls = 0; (left = busy_.load(core::memory_order::acquire)) != 0;)
      if (!keep_spinning(++polls)) caller_.wait(busy_, left);
    if (failed_.load(core::memory_order::relaxed)) [[unlikely]]
      rethrow();
  }
  /// An exception waits until all workers have returned, whose memory the caller's could be.
  void call(int worker) noexcept {
    try {
      work_(context_, worker);
    } catch (...) {
      if (!failed_.exchange(true, core::memory_order::relaxed)) failure_ = std::current_exception();
    }
  }
  [[noreturn, gnu::cold, gnu::noinline]] void rethrow() {
    failed_.store(false, core::memory_order::relaxed);
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  [[nodiscard]] core::thread& thread(int k) { return threads_[static_cast<std::size_t>(k)]; }

  void start_generation() {
    ++generation_;
    idle_.wake();
  }

  void serve() {
    const int worker = started_.fetch_add(1, core::memory_order::relaxed) + 1;
    for (std::uint32_t seen = 0;;) {
      std::uint32_t current = 0;
      for (int polls = 0; (current = generation_.load(core::memory_order::acquire)) == seen;)
        if (!keep_spinning(++polls)) idle_.wait(generation_, seen);
      seen = current;
      if (work_ == nullptr) return;
      call(worker);
      if (--busy_ == 0) caller_.wake();
    }
  }

  int workers_;
  void (*work_)(const void*, int) = nullptr;
  const void* context_ = nullptr;
  core::atomic<std::uint32_t> generation_{0}, busy_{0};
  core::atomic<int> started_{0};
  sleepers idle_, caller_;  // until generation_ changes; until busy_ does
  int running_ = 0;
  core::atomic<bool> failed_{false};
  core::owned_array<core::thread> threads_;
  std::exception_ptr failure_;  // of the worker that has set failed_
};

}  // namespace cordee::inline CORDEE_ABI::detail::device
