// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A thread block of a GPU on the host: every thread is a fiber that is suspended at barriers.
//
// Between two barriers the threads run one after another in an order drawn from a seed. A barrier
// of the block or of a warp that only some threads reach is an error. Shared memory is initialised
// with NaN bits, so that reading it before it is written shows in the results.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <setjmp.h>
#include <ucontext.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

#include "tests/support/emulated_warp.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#else
inline void __sanitizer_start_switch_fiber(void**, const void*, std::size_t) {}
inline void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*) {}
#endif

namespace support {

namespace fibers {

/// The saved context of a fiber or of the host.
struct saved_context {
  ucontext_t first{};  // the entry point; zero for the host, whose stack ASan reads
  jmp_buf resume;
  bool started = false;
};

/// Saves `from` and continues `to`. Long jumps make no system call, which would be most of the
/// time; AddressSanitizer supports only contexts.
inline void switch_context(saved_context& from, saved_context& to) {
#if defined(__SANITIZE_ADDRESS__)
  swapcontext(&from.first, &to.first);
#else
  if (_setjmp(from.resume) != 0) return;
  from.started = true;
  if (to.started) _longjmp(to.resume, 1);
  setcontext(&to.first);
#endif
}

/// Stacks of this host thread's finished fibers, reused by its next launch: page faults on new
/// memory were two fifths of an emulated small network's time.
inline thread_local std::vector<std::unique_ptr<std::byte[]>> free_stacks;

}  // namespace fibers

class emulated_thread_block {
  enum class state { runnable, at_warp_barrier, at_block_barrier, finished };
  struct fiber;

 public:
  emulated_thread_block(int threads, std::size_t shared_bytes)
      : fibers_(static_cast<std::size_t>(threads)),
        shared_(shared_bytes / sizeof(std::max_align_t) + 1),
        parts_(static_cast<std::size_t>(threads)),
        warps_(static_cast<std::size_t>(threads + 31) / 32),
        order_(static_cast<std::size_t>(threads)) {
    std::iota(order_.begin(), order_.end(), 0);
  }
  emulated_thread_block(const emulated_thread_block&) = delete;
  emulated_thread_block& operator=(const emulated_thread_block&) = delete;
  ~emulated_thread_block() {
#if !defined(__SANITIZE_ADDRESS__)  // which tracks the objects of each stack
    for (fiber& f : fibers_)
      if (f.stack) fibers::free_stacks.push_back(std::move(f.stack));
#endif
  }

  /// The block as one of its threads uses it: models MmaBlock.
  class view {
   public:
    view(emulated_thread_block& block, int thread, std::size_t index, std::size_t blocks)
        : block_(block), thread_(thread), index_(index), blocks_(blocks) {}

    [[nodiscard]] int thread() const { return thread_; }
    [[nodiscard]] std::size_t index() const { return index_; }
    [[nodiscard]] std::size_t blocks() const { return blocks_; }
    void sync() { block_.suspend(state::at_block_barrier); }
    template <class T>
    [[nodiscard]] T* shared(std::size_t n) {
      const std::size_t units = (n * sizeof(T) - 1) / sizeof(std::max_align_t) + 1, offset = used_;
      used_ += units;
      if (used_ > block_.shared_.size())
        throw cordee::error("a kernel uses more shared memory than its shared_bytes()");
      return reinterpret_cast<T*>(block_.shared_.data() + offset);
    }
    template <class T>
    [[nodiscard]] T sum(T x) {
      block_.parts_[static_cast<std::size_t>(thread_)] = static_cast<double>(x);
      sync();
      T total{};
      for (const double part : block_.parts_) total += static_cast<T>(part);
      sync();
      return total;
    }

    void copy_async(void* to, const void* from, bool valid) { own().copies.add(to, from, valid); }
    void commit_group() { own().copies.commit_group(); }
    template <int Groups>
    void wait_group() {
      own().copies.wait_group(Groups);
    }
    /// The four matrices of a fragment: rows 0-7 and 8-15, bytes 0-15 and 16-31 of a row.
    void ldmatrix(cordee::detail::device::fragment& f, const void* tile, int pitch) const {
      support::ldmatrix(f, lane(), false, [&](int l) {
        return static_cast<const std::byte*>(tile) + l % 16 * pitch + l / 16 * 16;
      });
    }
    /// The same of the transpose: rows are k, and 16-bit columns are rows of the fragment.
    void ldmatrix_trans(cordee::detail::device::fragment& f, const void* tile, int pitch) const {
      support::ldmatrix(f, lane(), true, [&](int l) {
        return static_cast<const std::byte*>(tile) + (l % 8 + l / 16 * 8) * pitch + l / 8 % 2 * 16;
      });
    }
    template <class Mma, int M, int N>
    void mma(const cordee::detail::device::fragment (&a)[M],
             const cordee::detail::device::fragment (&b)[N],
             cordee::detail::device::accumulator_fragment<Mma> (&c)[M][N]) {
      gathered_warp& warp = block_.warps_[static_cast<std::size_t>(thread_ / 32)];
      if (warp.arrived != 0 && (warp.M != M || warp.N != N))
        throw cordee::error("the threads of a warp call mma with different shapes");
      warp.M = M;
      warp.N = N;
      warp.a[lane()] = a;
      warp.b[lane()] = b;
      warp.c[lane()] = c;
      if (++warp.arrived < 32) return block_.suspend(state::at_warp_barrier);
      warp.arrived = 0;
      multiply_fragments<Mma>(warp);
      for (int l = 0; l < 32; ++l)
        block_.fibers_[static_cast<std::size_t>(thread_ - lane() + l)].at = state::runnable;
    }

   private:
    [[nodiscard]] int lane() const { return thread_ % 32; }
    [[nodiscard]] fiber& own() { return block_.fibers_[static_cast<std::size_t>(thread_)]; }

    emulated_thread_block& block_;
    int thread_;
    std::size_t index_, blocks_, used_ = 0;
  };

  /// Runs the kernel as block `index` of `blocks`, its threads in an order drawn from `random`.
  template <class Kernel>
  void run(const Kernel& kernel, std::size_t index, std::size_t blocks, std::mt19937_64& random) {
    std::memset(shared_.data(), 0xff, shared_.size() * sizeof(std::max_align_t));
    const auto thread = [&](int t) {
      view block(*this, t, index, blocks);
      kernel(block);
    };
    work_ = [](const void* context, int t) { (*static_cast<const decltype(thread)*>(context))(t); };
    context_ = &thread;
    for (fiber& f : fibers_) {
      f.at = state::runnable;
      f.copies = {};
    }
    for (gathered_warp& warp : warps_) warp.arrived = 0;
    while (true) {
      const auto last = static_cast<int>(random() % warps_.size());
      while (run_threads(random, [&](int t) { return t / 32 != last; }) ||
             run_threads(random, [](int) { return true; })) {
      }
      const auto finished = count(state::finished);
      if (finished == std::ssize(fibers_)) return;
      if (count(state::at_block_barrier) != std::ssize(fibers_))
        throw cordee::error(cordee::concat("divergent barrier: ", finished, " of ", fibers_.size(),
                                           " threads of block ", index, " have finished, ",
                                           count(state::at_warp_barrier),
                                           " wait for their warps, the others for the block"));
      for (fiber& f : fibers_) f.at = state::runnable;
    }
  }

 private:
  /// Runs each runnable thread for which which(t), until it is suspended. Returns whether there was
  /// one.
  template <class Which>
  bool run_threads(std::mt19937_64& random, const Which& which) {
    bool any = false;
    std::shuffle(order_.begin(), order_.end(), random);
    for (const int t : order_) {
      if (fibers_[static_cast<std::size_t>(t)].at != state::runnable || !which(t)) continue;
      any = true;
      resume(t);
      if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    }
    return any;
  }

  static constexpr std::size_t stack_bytes = 64 * 1024;

  struct fiber {
    fibers::saved_context context;
    std::unique_ptr<std::byte[]> stack;
    void* shadow = nullptr;  // AddressSanitizer's, here and below
    state at = state::runnable;
    pending_copies copies;
  };
  [[nodiscard]] std::ptrdiff_t count(state s) const {
    return std::count_if(fibers_.begin(), fibers_.end(), [s](const fiber& f) { return f.at == s; });
  }

  void start(fiber& f) {
    if (fibers::free_stacks.empty()) {
      f.stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
    } else {
      f.stack = std::move(fibers::free_stacks.back());
      fibers::free_stacks.pop_back();
    }
    getcontext(&f.context.first);
    f.context.first.uc_stack = {f.stack.get(), 0, stack_bytes};
    f.context.first.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&f.context.first, reinterpret_cast<void (*)()>(&emulated_thread_block::serve), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }

  /// The fiber of a thread: of one block after another.
  static void serve(unsigned high, unsigned low) {
    auto& block = *reinterpret_cast<emulated_thread_block*>(std::uintptr_t{high} << 32 | low);
    __sanitizer_finish_switch_fiber(nullptr, &block.host_stack_, &block.host_size_);
    for (;;) {
      try {
        block.work_(block.context_, block.current_);
      } catch (...) {
        block.thrown_ = std::current_exception();
      }
      block.suspend(state::finished);
    }
  }

  /// Runs thread t until it is suspended. Called on the host's stack.
  void resume(int t) {
    fiber& f = fibers_[static_cast<std::size_t>(t)];
    if (!f.stack) start(f);
    current_ = t;
    __sanitizer_start_switch_fiber(&host_shadow_, f.stack.get(), stack_bytes);
    fibers::switch_context(host_, f.context);
    __sanitizer_finish_switch_fiber(host_shadow_, nullptr, nullptr);
  }

  /// Suspends the current thread. Returns when it is resumed.
  void suspend(state s) {
    fiber& f = fibers_[static_cast<std::size_t>(current_)];
    f.at = s;
    __sanitizer_start_switch_fiber(&f.shadow, host_stack_, host_size_);
    fibers::switch_context(f.context, host_);
    __sanitizer_finish_switch_fiber(f.shadow, &host_stack_, &host_size_);
  }

  std::vector<fiber> fibers_;
  std::vector<std::max_align_t> shared_;
  std::vector<double> parts_;  // of a sum
  std::vector<gathered_warp> warps_;
  std::vector<int> order_;
  void (*work_)(const void*, int) = nullptr;
  const void* context_ = nullptr;
  std::exception_ptr thrown_;
  int current_ = 0;
  fibers::saved_context host_;
  void* host_shadow_ = nullptr;
  const void* host_stack_ = nullptr;
  std::size_t host_size_ = 0;
};

}  // namespace support
