// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU as a device: host memory, and streams whose work is complete when the call returns.
//
// `cpu{}` has a pool of as many workers as the thread's affinity mask has cores, or as a
// `cpu::worker_limit` of the calling thread allows: max(1, cores / n) inside `threads::launch(n,
// …)`.
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include <cordee/core/atomic.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/device/adl_base.hpp>
#include <cordee/device/external_memory.hpp>
#include <cordee/device/pool.hpp>

namespace cordee::inline CORDEE_ABI {

/// The CPU as a device; copies share its thread pool.
class cpu {
 public:
  static constexpr std::string_view name = "cpu";  ///< Name in logs and checkpoints.
  static constexpr bool host_memory = true;        ///< Whether host code can read the memory.
  static constexpr std::size_t alignment = 256;    ///< Alignment of allocated memory, in bytes.

  /// Work is complete when a call returns. Without workers it runs in the caller's thread.
  struct stream : detail::ops::adl_base {
    /// Threads of the device; null: the calling thread alone.
    detail::device::pool* workers = nullptr;

    constexpr stream() = default;
    /// Runs on `p`, which must outlive it.
    constexpr stream(detail::device::pool* p) : workers(p) {}
    /// As `cpu::allocate`.
    [[nodiscard]] void* allocate(std::size_t size) const { return allocate_pages(size); }
    /// As `cpu::release`.
    void release(void* memory) const noexcept { free_pages(memory); }
  };
  struct event {};  ///< Empty: work is complete when it is recorded.

  /// Makes default_workers() workers.
  [[gnu::cold]] cpu() : cpu(default_workers()) {}
  /// Makes `workers` workers, including the calling thread; at least 1.
  explicit cpu(int workers) : pool_(shared_pool::make(std::max(1, workers))) {}

  /// Workers of a `cpu{}` made by the calling thread: its worker_limit, else the cores in its
  /// affinity mask.
  [[nodiscard]] static int default_workers() {
    return limit() > 0 ? limit() : detail::core::core_count();
  }

  /// Number of workers, including the calling thread.
  [[nodiscard]] int workers() const { return pool_.get()->size(); }
  /// A stream over the device's pool. At most one stream of a pool may run work at a time.
  [[nodiscard]] stream make_stream() const { return {pool_.get()}; }

  /// Memory of `size` bytes, uninitialized, in huge pages if Linux has them; null for 0 bytes.
  /// @throws error if memory is exhausted.
  [[nodiscard]] void* allocate(std::size_t size) const { return allocate_pages(size); }
  /// Frees memory from `allocate`; null is allowed.
  void release(void* memory) const noexcept { free_pages(memory); }
  /// `size` bytes of zeros. Pages that are never written use no memory. @throws error as
  /// `allocate`.
  [[nodiscard, gnu::cold, gnu::noinline]] static detail::device::external_memory allocate_zeros(
      std::size_t size) {
    void* const owner = std::calloc(size + alignment, 1);
    if (owner == nullptr) throw_out_of_memory(size);
    const std::size_t offset = -reinterpret_cast<std::uintptr_t>(owner) % alignment;
    void* const memory = static_cast<std::byte*>(owner) + offset;
    advise_huge_pages(memory, size);
    return {memory, owner, std::free};
  }
  /// Copies `size` bytes; the ranges may overlap.
  void copy(void* out, const void* in, std::size_t size, stream) const {
    if (size != 0) std::memmove(out, in, size);
  }
  /// Sets `size` bytes to zero.
  void clear(void* out, std::size_t size, stream) const {
    if (size != 0) std::memset(out, 0, size);
  }
  /// Does nothing: work is complete when its call returns.
  [[nodiscard]] event record(stream) const { return {}; }
  /// Does nothing.
  void await(stream, event) const {}
  /// Does nothing.
  void finish(stream) const {}

  /// While it exists, `cpu{}` in this thread has that many workers. Used by launchers.
  class worker_limit {
   public:
    /// Limits this thread until the object is destroyed; 0: no limit.
    explicit worker_limit(int workers) : previous_(limit()) { limit() = workers; }
    worker_limit(const worker_limit&) = delete;
    worker_limit& operator=(const worker_limit&) = delete;
    ~worker_limit() { limit() = previous_; }

   private:
    int previous_;
  };

 private:
  using shared_pool = detail::core::counted_ptr<detail::device::pool>;

  [[noreturn, gnu::cold, gnu::noinline]] static void throw_out_of_memory(std::size_t size) {
    throw error(concat("cpu: no memory for ", detail::core::grouped(size),
                       " bytes; use a smaller batch per rank or fewer ranks"));
  }
  static void* allocate_pages(std::size_t size) {
    if (size == 0) return nullptr;
    void* memory = ::operator new(size, std::align_val_t{alignment}, std::nothrow);
    if (memory == nullptr) throw_out_of_memory(size);
    advise_huge_pages(memory, size);
    return memory;
  }
  /// Activations span thousands of small pages, more than a TLB holds. A hint, so errors are
  /// ignored.
  static void advise_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t size) {
#if defined(__linux__)
    constexpr std::size_t huge = std::size_t{1} << 21;
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    const auto first = (begin + huge - 1) / huge * huge, last = (begin + size) / huge * huge;
    if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
  }
  static void free_pages(void* memory) noexcept {
    ::operator delete(memory, std::align_val_t{alignment});
  }
  static int& limit() {
    thread_local int workers = 0;  // 0: no limit
    return workers;
  }
  shared_pool pool_;
};
static_assert(Device<cpu>);

namespace detail::device {

/// The number of workers that share a stream's work.
inline int workers_of(cpu::stream s) { return s.workers == nullptr ? 1 : s.workers->size(); }

// Not templates, so that a kernel instantiates nothing but itself.
[[gnu::noinline]] inline void parallel_chunks(cpu::stream s, std::size_t n, std::size_t grain,
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
[[gnu::noinline]] inline void parallel_dynamic(cpu::stream s, std::size_t n,
                                               void (*f)(const void*, std::size_t),
                                               const void* context) {
  detail::core::atomic<std::size_t> next{0};
  const auto work = [&](int) {
    for (std::size_t k; (k = next.fetch_add(1, detail::core::memory_order::relaxed)) < n;)
      f(context, k);
  };
  if (workers_of(s) == 1 || n <= 1) return work(0);
  s.workers->run(work);
}

/// Calls f(first, last) on each worker of the stream with a contiguous chunk of 0 .. n-1. The
/// length of every chunk but the last is a multiple of `grain`; empty chunks are skipped.
template <class F>
void parallel_chunks(cpu::stream s, std::size_t n, std::size_t grain, const F& f) {
  parallel_chunks(
      s, n, grain,
      [](const void* context, std::size_t first, std::size_t last) {
        (*static_cast<const F*>(context))(first, last);
      },
      &f);
}

/// Calls f(task) once for each of the tasks 0 .. n-1, on the next free worker: dynamic scheduling,
/// for tasks of some size, so that a worker that is delayed does not delay the others. Requires
/// that the result of a task depends neither on the worker nor on the order of tasks.
template <class F>
void parallel_dynamic(cpu::stream s, std::size_t n, const F& f) {
  parallel_dynamic(
      s, n, [](const void* context, std::size_t task) { (*static_cast<const F*>(context))(task); },
      &f);
}

}  // namespace detail::device

}  // namespace cordee::inline CORDEE_ABI
