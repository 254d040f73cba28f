// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A block of GPU threads on the host: every thread is a fiber, and a barrier is where it rests.
//
// Between two barriers threads run one after another in an order drawn from a seed. A barrier, of
// the block or of a warp, that some threads reach and others never do is an error; shared memory
// begins as bytes that are no number, so that whoever reads before anybody wrote will notice.
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

#include "tests/support/emulated_warp.hpp"

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

/// Of this thread's fibers that are over, for those of its next launch: new memory, a page at a
/// time, was two fifths of what small networks on grids took.
inline thread_local std::vector<std::unique_ptr<std::byte[]>> left_stacks;

}  // namespace fibers

class emulated_block {
  enum class rests { no_more, warp, block, for_ever };
  struct fiber;

 public:
  emulated_block(int threads, std::size_t shared_bytes)
      : fibers_(static_cast<std::size_t>(threads)),
        shared_(shared_bytes / sizeof(std::max_align_t) + 1),
        parts_(static_cast<std::size_t>(threads)),
        warps_(static_cast<std::size_t>(threads + 31) / 32),
        order_(static_cast<std::size_t>(threads)) {
    std::iota(order_.begin(), order_.end(), 0);
  }
  emulated_block(const emulated_block&) = delete;
  emulated_block& operator=(const emulated_block&) = delete;
  ~emulated_block() {
#if !defined(__SANITIZE_ADDRESS__)  // which remembers what lay on a stack
    for (fiber& f : fibers_)
      if (f.stack) fibers::left_stacks.push_back(std::move(f.stack));
#endif
  }

  /// What one thread sees: a Block.
  class view {
   public:
    view(emulated_block& all, int thread, std::size_t index, std::size_t blocks)
        : all_(all), thread_(thread), index_(index), blocks_(blocks) {}

    [[nodiscard]] int thread() const { return thread_; }
    [[nodiscard]] std::size_t index() const { return index_; }
    [[nodiscard]] std::size_t blocks() const { return blocks_; }
    void sync() { all_.rest(rests::block); }
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

    void copy_async(void* to, const void* from, bool there) { mine().late.ask(to, from, there); }
    void commit() { mine().late.commit(); }
    template <int Groups>
    void wait() {
      mine().late.wait(Groups);
    }
    void load(cordee::fragment& f, const void* tile, int pitch) const {
      for (int w = 0; w < 4; ++w)
        std::memcpy(&f.word[w], at(tile, f.line(lane(), w) * pitch + f.place(lane(), w) * 4), 4);
    }
    void load_across(cordee::fragment& f, const void* tile, int pitch) const {
      for (int w = 0; w < 4; ++w) {
        std::uint16_t two[2];
        for (int i = 0; i < 2; ++i)
          std::memcpy(&two[i],
                      at(tile, (2 * f.place(lane(), w) + i) * pitch + f.line(lane(), w) * 2), 2);
        f.word[w] = two[0] | std::uint32_t{two[1]} << 16;
      }
    }
    template <class Words, int M, int N>
    void multiply(const cordee::fragment (&a)[M], const cordee::fragment (&b)[N],
                  cordee::fragment_sums<Words> (&c)[M][N]) {
      gathered_warp& warp = all_.warps_[static_cast<std::size_t>(thread_ / 32)];
      if (warp.arrived != 0 && (warp.M != M || warp.N != N))
        throw cordee::error("a warp's threads ask for different products");
      warp.M = M;
      warp.N = N;
      warp.a[lane()] = a;
      warp.b[lane()] = b;
      warp.c[lane()] = c;
      if (++warp.arrived < 32) return all_.rest(rests::warp);
      warp.arrived = 0;
      product_of<Words>(warp);
      for (int l = 0; l < 32; ++l)
        all_.fibers_[static_cast<std::size_t>(thread_ - lane() + l)].rest = rests::no_more;
    }

   private:
    [[nodiscard]] int lane() const { return thread_ % 32; }
    [[nodiscard]] fiber& mine() { return all_.fibers_[static_cast<std::size_t>(thread_)]; }
    static const std::byte* at(const void* tile, int offset) {
      return static_cast<const std::byte*>(tile) + offset;
    }

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
    for (fiber& f : fibers_) {
      f.rest = rests::no_more;
      f.late = {};
    }
    for (gathered_warp& warp : warps_) warp.arrived = 0;
    while (true) {
      const auto last = static_cast<int>(random() % warps_.size());
      while (go_on(random, [&](int t) { return t / 32 != last; }) ||
             go_on(random, [](int) { return true; })) {
      }
      const auto over = count(rests::for_ever);
      if (over == std::ssize(fibers_)) return;
      if (count(rests::block) != std::ssize(fibers_))
        throw cordee::error(cordee::text(
            "a barrier that diverges: ", over, " of ", fibers_.size(), " threads of block ", index,
            " ended, ", count(rests::warp), " wait for their warps, and the ", "others for all"));
      for (fiber& f : fibers_) f.rest = rests::no_more;
    }
  }

 private:
  /// Those of the threads that can go on do, each until it rests; is there any?
  template <class Which>
  bool go_on(std::mt19937_64& random, const Which& which) {
    bool any = false;
    std::shuffle(order_.begin(), order_.end(), random);
    for (const int t : order_) {
      if (fibers_[static_cast<std::size_t>(t)].rest != rests::no_more || !which(t)) continue;
      any = true;
      resume(t);
      if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    }
    return any;
  }

  static constexpr std::size_t stack_bytes = 64 * 1024;

  struct fiber {
    fibers::place at;
    std::unique_ptr<std::byte[]> stack;
    void* shadow = nullptr;  // AddressSanitizer's, here and below
    rests rest = rests::no_more;
    copies late;
  };
  [[nodiscard]] std::ptrdiff_t count(rests how) const {
    return std::count_if(fibers_.begin(), fibers_.end(),
                         [how](const fiber& f) { return f.rest == how; });
  }

  void begin(fiber& f) {
    if (fibers::left_stacks.empty()) {
      f.stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
    } else {
      f.stack = std::move(fibers::left_stacks.back());
      fibers::left_stacks.pop_back();
    }
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
      all.rest(rests::for_ever);
    }
  }

  /// From the host into a thread, until it rests or ends.
  void resume(int t) {
    fiber& f = fibers_[static_cast<std::size_t>(t)];
    if (!f.stack) begin(f);
    current_ = t;
    __sanitizer_start_switch_fiber(&host_shadow_, f.stack.get(), stack_bytes);
    fibers::go(host_, f.at);
    __sanitizer_finish_switch_fiber(host_shadow_, nullptr, nullptr);
  }

  /// From a thread back to the host, until what it waits for is there.
  void rest(rests how) {
    fiber& mine = fibers_[static_cast<std::size_t>(current_)];
    mine.rest = how;
    __sanitizer_start_switch_fiber(&mine.shadow, host_stack_, host_size_);
    fibers::go(mine.at, host_);
    __sanitizer_finish_switch_fiber(mine.shadow, &host_stack_, &host_size_);
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
  fibers::place host_;
  void* host_shadow_ = nullptr;
  const void* host_stack_ = nullptr;
  std::size_t host_size_ = 0;
};

}  // namespace support
