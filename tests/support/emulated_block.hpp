// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A block of GPU threads on the host: every thread is a fiber, and a barrier is where it rests.
//
// Between two barriers threads run one after another in an order drawn from a seed. A barrier that
// some threads reach and others never do is an error; shared memory begins as bytes that are no
// number, so that whoever reads before anybody wrote will notice.
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

#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#else
inline void __sanitizer_start_switch_fiber(void**, const void*, std::size_t) {}
inline void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*) {}
#endif

namespace support {

namespace fibers {

/// Where a fiber, or the host, was left.
struct place {
  ucontext_t first{};  // where it begins; ASan reads the stack of the host's, which nobody sets
  jmp_buf later;
  bool begun = false;
};

/// Leaves `from` and goes on in `to`. Long jumps ask nothing of the kernel, which is most of the
/// time here; AddressSanitizer understands contexts alone.
inline void go(place& from, place& to) {
#if defined(__SANITIZE_ADDRESS__)
  swapcontext(&from.first, &to.first);
#else
  if (_setjmp(from.later) != 0) return;
  from.begun = true;
  if (to.begun) _longjmp(to.later, 1);
  setcontext(&to.first);
#endif
}

}  // namespace fibers

class emulated_block {
 public:
  emulated_block(int threads, std::size_t shared_bytes)
      : fibers_(static_cast<std::size_t>(threads)),
        shared_(shared_bytes / sizeof(std::max_align_t) + 1),
        parts_(static_cast<std::size_t>(threads)),
        order_(static_cast<std::size_t>(threads)) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  /// What one thread sees: a Block.
  class view {
   public:
    view(emulated_block& all, int thread, std::size_t index, std::size_t blocks)
        : all_(all), thread_(thread), index_(index), blocks_(blocks) {}

    [[nodiscard]] int thread() const { return thread_; }
    [[nodiscard]] std::size_t index() const { return index_; }
    [[nodiscard]] std::size_t blocks() const { return blocks_; }
    void sync() { all_.rest(); }
    template <class T>
    [[nodiscard]] T* shared(std::size_t n) {
      const std::size_t units = (n * sizeof(T) - 1) / sizeof(std::max_align_t) + 1, at = used_;
      used_ += units;
      if (used_ > all_.shared_.size())
        throw cordee::error("a body asks for more shared memory than its shared_bytes()");
      return reinterpret_cast<T*>(all_.shared_.data() + at);
    }
    template <class T>
    [[nodiscard]] T sum(T x) {
      all_.parts_[static_cast<std::size_t>(thread_)] = static_cast<double>(x);
      sync();
      T total{};
      for (const double part : all_.parts_) total += static_cast<T>(part);
      sync();
      return total;
    }

   private:
    emulated_block& all_;
    int thread_;
    std::size_t index_, blocks_, used_ = 0;
  };

  /// Block `index` of `blocks` runs the body, its threads in an order drawn from `random`.
  template <class Body>
  void run(const Body& body, std::size_t index, std::size_t blocks, std::mt19937_64& random) {
    std::memset(shared_.data(), 0xff, shared_.size() * sizeof(std::max_align_t));
    const auto thread = [&](int t) {
      view mine(*this, t, index, blocks);
      body(mine);
    };
    work_ = [](const void* context, int t) { (*static_cast<const decltype(thread)*>(context))(t); };
    context_ = &thread;
    for (fiber& f : fibers_) f.over = false;
    while (true) {
      std::shuffle(order_.begin(), order_.end(), random);
      for (const int t : order_) {
        resume(t);
        if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
      }
      const auto over =
          std::count_if(fibers_.begin(), fibers_.end(), [](const fiber& f) { return f.over; });
      if (over == std::ssize(fibers_)) return;
      if (over != 0)
        throw cordee::error(cordee::text("a barrier that diverges: ", over, " of ", fibers_.size(),
                                         " threads of block ", index,
                                         " ended, and the others wait for them"));
    }
  }

 private:
  static constexpr std::size_t stack_bytes = 64 * 1024;

  struct fiber {
    fibers::place at;
    std::unique_ptr<std::byte[]> stack;
    void* shadow = nullptr;  // AddressSanitizer's, here and below
    bool over = false;
  };

  void begin(fiber& f) {
    f.stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
    getcontext(&f.at.first);
    f.at.first.uc_stack = {f.stack.get(), 0, stack_bytes};
    f.at.first.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&f.at.first, reinterpret_cast<void (*)()>(&emulated_block::serve), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }

  /// A thread of one block after another.
  static void serve(unsigned high, unsigned low) {
    auto& all = *reinterpret_cast<emulated_block*>(std::uintptr_t{high} << 32 | low);
    __sanitizer_finish_switch_fiber(nullptr, &all.host_stack_, &all.host_size_);
    for (;;) {
      try {
        all.work_(all.context_, all.current_);
      } catch (...) {
        all.thrown_ = std::current_exception();
      }
      all.fibers_[static_cast<std::size_t>(all.current_)].over = true;
      all.rest();
    }
  }

  /// From the host into a thread, until it rests or ends.
  void resume(int t) {
    fiber& f = fibers_[static_cast<std::size_t>(t)];
    if (f.over) return;
    if (!f.stack) begin(f);
    current_ = t;
    __sanitizer_start_switch_fiber(&host_shadow_, f.stack.get(), stack_bytes);
    fibers::go(host_, f.at);
    __sanitizer_finish_switch_fiber(host_shadow_, nullptr, nullptr);
  }

  /// From a thread back to the host.
  void rest() {
    fiber& mine = fibers_[static_cast<std::size_t>(current_)];
    __sanitizer_start_switch_fiber(&mine.shadow, host_stack_, host_size_);
    fibers::go(mine.at, host_);
    __sanitizer_finish_switch_fiber(mine.shadow, &host_stack_, &host_size_);
  }

  std::vector<fiber> fibers_;
  std::vector<std::max_align_t> shared_;
  std::vector<double> parts_;  // of a sum
  std::vector<int> order_;
  void (*work_)(const void*, int) = nullptr;
  const void* context_ = nullptr;
  std::exception_ptr thrown_;
  int current_ = 0;
  fibers::place host_;
  void* host_shadow_ = nullptr;
  const void* host_stack_ = nullptr;
  std::size_t host_size_ = 0;
};

}  // namespace support
