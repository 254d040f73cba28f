// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU as a device: host memory, and streams that run at once in the thread that uses them.
//
// `cpu{}` owns a pool of as many workers as the calling thread is entitled to: every core, or
// inside `threads::launch(n, …)` max(1, cores / n). Copies of a device share its pool.
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <thread>

#include <cordee/core/error.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/device/pool.hpp>

namespace cordee::inline CORDEE_ABI {

class cpu {
 public:
  static constexpr std::string_view name = "cpu";
  static constexpr bool host_memory = true;
  static constexpr std::size_t alignment = 256;

  /// Work runs when it is handed over. Without workers it stays in the caller's thread.
  struct stream {
    pool* workers = nullptr;

    [[nodiscard]] void* lend(std::size_t size) const { return room(size); }
    void take_back(void* memory) const noexcept { give_up(memory); }
  };
  struct event {};

  cpu() : cpu(entitled()) {}
  explicit cpu(int workers) : pool_(std::make_shared<pool>(std::max(1, workers))) {}

  [[nodiscard]] int workers() const { return pool_->size(); }
  /// A stream over the device's pool: one at a time may be at work.
  [[nodiscard]] stream open() const { return {pool_.get()}; }

  [[nodiscard]] void* allocate(std::size_t size) const { return room(size); }
  void release(void* memory) const noexcept { give_up(memory); }
  void copy(void* out, const void* in, std::size_t size, stream) const {
    if (size != 0) std::memmove(out, in, size);
  }
  void clear(void* out, std::size_t size, stream) const {
    if (size != 0) std::memset(out, 0, size);
  }
  [[nodiscard]] event record(stream) const { return {}; }
  void await(stream, event) const {}
  void finish(stream) const {}

  /// While it lives, `cpu{}` in this thread has that many workers. Launchers use it.
  class entitlement {
   public:
    explicit entitlement(int workers) : before_(granted()) { granted() = workers; }
    entitlement(const entitlement&) = delete;
    entitlement& operator=(const entitlement&) = delete;
    ~entitlement() { granted() = before_; }

   private:
    int before_;
  };

 private:
  [[noreturn, gnu::cold, gnu::noinline]] static void no_memory(std::size_t size) {
    throw error(text("cpu: no memory for ", grouped(size),
                     " bytes; use a smaller batch per rank or fewer ranks"));
  }
  static void* room(std::size_t size) {
    if (size == 0) return nullptr;
    void* memory = ::operator new(size, std::align_val_t{alignment}, std::nothrow);
    if (memory == nullptr) no_memory(size);
    ask_for_large_pages(memory, size);
    return memory;
  }
  /// Activations span thousands of small pages, more than the address caches hold. A hint: what it
  /// returns does not matter.
  static void ask_for_large_pages([[maybe_unused]] void* memory,
                                  [[maybe_unused]] std::size_t size) {
#if defined(__linux__)
    constexpr std::size_t large = std::size_t{1} << 21;
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    const auto first = (begin + large - 1) / large * large, last = (begin + size) / large * large;
    if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
  }
  static void give_up(void* memory) noexcept {
    ::operator delete(memory, std::align_val_t{alignment});
  }
  static int& granted() {
    thread_local int workers = 0;  // 0: nobody limited this thread
    return workers;
  }
  static int entitled() {
    return granted() > 0 ? granted() : static_cast<int>(std::thread::hardware_concurrency());
  }

  std::shared_ptr<pool> pool_;
};
static_assert(Device<cpu>);

/// How many share a stream's work.
inline int workers_of(cpu::stream s) { return s.workers == nullptr ? 1 : s.workers->size(); }

namespace detail {
/// Not a template, so that a kernel instantiates nothing but itself.
[[gnu::noinline]] inline void parallel(cpu::stream s, std::size_t n, std::size_t grain,
                                       void (*f)(const void*, std::size_t, std::size_t),
                                       const void* context) {
  if (workers_of(s) == 1 || n <= grain) {
    if (n > 0) f(context, std::size_t{0}, n);
    return;
  }
  const auto workers = static_cast<std::size_t>(s.workers->size());
  const std::size_t grains = (n + grain - 1) / grain;
  s.workers->run([&](int worker) {
    const auto w = static_cast<std::size_t>(worker);
    const std::size_t first = std::min(n, grains * w / workers * grain);
    const std::size_t last = std::min(n, grains * (w + 1) / workers * grain);
    if (first < last) f(context, first, last);
  });
}
[[gnu::noinline]] inline void each_task(cpu::stream s, std::size_t n,
                                        void (*f)(const void*, std::size_t), const void* context) {
  std::atomic<std::size_t> next{0};
  const auto work = [&](int) {
    for (std::size_t k; (k = next.fetch_add(1, std::memory_order_relaxed)) < n;) f(context, k);
  };
  if (workers_of(s) == 1 || n <= 1) return work(0);
  s.workers->run(work);
}
}  // namespace detail

/// Calls f(first, last) on each worker of the stream with its contiguous part of 0 .. n-1. A part
/// is a multiple of `grain` but for the last one; empty parts are not called.
template <class F>
void parallel(cpu::stream s, std::size_t n, std::size_t grain, const F& f) {
  detail::parallel(
      s, n, grain,
      [](const void* context, std::size_t first, std::size_t last) {
        (*static_cast<const F*>(context))(first, last);
      },
      &f);
}

/// Calls f(task) for the tasks 0 .. n-1, each by whichever worker is free: for pieces of some size,
/// where a worker that is held up, by a neighbour or by an exchange, would hold up all. What a task
/// does may not depend on who does it, nor when.
template <class F>
void each_task(cpu::stream s, std::size_t n, const F& f) {
  detail::each_task(
      s, n, [](const void* context, std::size_t task) { (*static_cast<const F*>(context))(task); },
      &f);
}

}  // namespace cordee::inline CORDEE_ABI
