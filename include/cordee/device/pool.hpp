// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A few threads that share one piece of work.
//
// `parallel` (cpu.hpp) splits it by the number of workers, `each_task` hands it out as they come.
// Kernels that sum split their work by a grid of their own, so that results depend neither on the
// workers nor on timing.
// No OpenMP: ThreadSanitizer does not see it, and its flags would leak to consumers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include <cordee/core/config.hpp>
#include <cordee/core/thread.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {
/// Between two looks at what another thread will write: whether to look again rather than sleep.
/// Waking a sleeper takes 30 to 60 microseconds, so a waiter looks about as long before it sleeps.
/// At first it keeps its core, then it leaves it to whoever wants it.
inline bool look_again(int looks) {
  constexpr int pauses = 256, yields = 128;
  if (looks > pauses + yields) return false;
  if (looks > pauses)
    std::this_thread::yield();
  else
#if defined(__x86_64__)
    __builtin_ia32_pause();  // without it a handover was seen to take 6 us
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  return true;
}
}  // namespace detail

/// `size()` workers, the caller among them; the others start with the first piece of work. One
/// caller at a time; parts may not throw.
class pool {
 public:
  explicit pool(int workers)
      : workers_(workers), helpers_(new std::thread[static_cast<std::size_t>(workers - 1)]) {}
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool() {
    work_ = nullptr;
    announce();
    for (int k = 0; k < running_; ++k) helper(k).join();
  }

  [[nodiscard]] int size() const { return workers_; }

  /// Calls f(worker) once on every worker and returns when all are done.
  template <class F>
  void run(const F& f) {
    if (workers_ == 1) return f(0);
    run([](const void* context, int worker) { (*static_cast<const F*>(context))(worker); }, &f);
  }

 private:
  /// Not a template: what starts threads and waits for them is compiled once and not per kernel.
  [[gnu::noinline]] void run(void (*work)(const void*, int), const void* context) {
    for (; running_ < workers_ - 1; ++running_) helper(running_) = start<&pool::serve>(*this);
    context_ = context;
    work_ = work;
    busy_.store(workers_ - 1, std::memory_order_relaxed);
    announce();
    work(context, 0);
    for (int left, looks = 0; (left = busy_.load(std::memory_order_acquire)) != 0;)
      if (!detail::look_again(++looks)) busy_.wait(left, std::memory_order_acquire);
  }

  [[nodiscard]] std::thread& helper(int k) { return helpers_[static_cast<std::size_t>(k)]; }

  void announce() {
    turn_.fetch_add(1, std::memory_order_release);
    turn_.notify_all();
  }

  void serve() {
    const int worker = started_.fetch_add(1, std::memory_order_relaxed) + 1;
    for (std::uint32_t seen = 0;;) {
      std::uint32_t now = 0;
      for (int looks = 0; (now = turn_.load(std::memory_order_acquire)) == seen;)
        if (!detail::look_again(++looks)) turn_.wait(seen, std::memory_order_acquire);
      seen = now;
      if (work_ == nullptr) return;
      work_(context_, worker);
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
    }
  }

  int workers_;
  void (*work_)(const void*, int) = nullptr;
  const void* context_ = nullptr;
  std::atomic<std::uint32_t> turn_{0};
  std::atomic<int> busy_{0}, started_{0};
  int running_ = 0;
  std::unique_ptr<std::thread[]> helpers_;  // an array: a vector of threads takes long to compile
};

}  // namespace cordee::inline CORDEE_ABI
