// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A thread block of a GPU on the host: every thread is a fiber that is suspended at barriers.
//
// Between two barriers the threads run one after another in an order drawn from a seed. A barrier
// of the block, or an ldmatrix or mma of a warp, that only some threads reach is an error, as is a
// warp whose lanes arrive at different ones. Shared memory is initialised with NaN bits, so that
// reading it before it is written shows in the results. More than 300 lines: fibers, barriers and
// warps are one state machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <source_location>
#include <string>
#include <typeinfo>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

#include "tests/support/emulated_warp.hpp"
#include "tests/support/fibers.hpp"
#include "tests/support/kernel_observer.hpp"
#include "tests/support/type_name.hpp"

namespace support {

class emulated_thread_block {
  enum class state { runnable, at_warp_barrier, at_block_barrier, finished };
  struct fiber;

 public:
  /// `slot` is the number of the block among those that are resident together. Threads that are
  /// `independent` call nothing collective and need no fibers.
  emulated_thread_block(int threads, std::size_t shared_bytes, std::size_t slot, bool independent)
      : slot_(slot),
        threads_(threads),
        fibers_(independent ? 0 : static_cast<std::size_t>(threads)),
        shared_((shared_bytes + max_gaps * gap_bytes) / sizeof(unit) + 1),
        shared_units_(shared_bytes / sizeof(unit) + 1),
        parts_(static_cast<std::size_t>(threads)),
        warps_(static_cast<std::size_t>(threads + 31) / 32),
        order_(static_cast<std::size_t>(threads)) {
    std::iota(order_.begin(), order_.end(), 0);
  }
  emulated_thread_block(const emulated_thread_block&) = delete;
  emulated_thread_block& operator=(const emulated_thread_block&) = delete;

  /// The block as one of its threads uses it: models MmaBlock.
  class view {
   public:
    view(emulated_thread_block& block, int thread) : block_(block), thread_(thread) {}

    [[nodiscard]] int thread() const { return thread_; }
    [[nodiscard]] std::size_t index() const {
      const emulator_section section;
      return block_.index_;
    }
    [[nodiscard]] std::size_t blocks() const {
      const emulator_section section;
      return block_.blocks_;
    }
    void sync() {
      const emulator_section section;
      block_.suspend(thread_, state::at_block_barrier);
    }
    /// Arrays lie a whole number of banks' rows further apart than on a GPU.
    template <class T>
    [[nodiscard]] T* shared(std::size_t n) {
      const emulator_section section;
      const std::size_t units = (n * sizeof(T) - 1) / sizeof(unit) + 1;
      if (used_ + units > block_.shared_units_)
        throw cordee::error(cordee::concat("kernel ", block_.kernel_name(),
                                           " uses more shared memory than its shared_bytes()"));
      const std::size_t gap = std::min(arrays_, max_gaps) * (gap_bytes / sizeof(unit));
      T* const array = reinterpret_cast<T*>(block_.shared_.data() + used_ + gap);
      used_ += units;
      ++arrays_;
      if (observer != nullptr) observer->add_shared(array, n * sizeof(T));
      return array;
    }
    template <class T>
    [[nodiscard]] T sum(T x) {
      const emulator_section section;
      block_.parts_[static_cast<std::size_t>(thread_)] = static_cast<double>(x);
      block_.suspend(thread_, state::at_block_barrier);
      T total{};
      for (const double part : block_.parts_) total += static_cast<T>(part);
      block_.suspend(thread_, state::at_block_barrier);
      return total;
    }

    [[nodiscard]] bool is_last(unsigned* arrived, unsigned blocks) {
      const emulator_section section;
      block_.suspend(thread_, state::at_block_barrier);
      if (thread_ == 0) block_.arrive(arrived, blocks);
      block_.suspend(thread_, state::at_block_barrier);
      return block_.is_last_;
    }

    void copy_async(void* to, const void* from, bool valid) {
      const emulator_section section;
      own().copies.add(to, from, valid);
    }
    void commit_group() {
      const emulator_section section;
      own().copies.commit_group();
    }
    template <int Groups>
    void wait_group() {
      const emulator_section section;
      own().copies.wait_group(Groups);
    }
    void ldmatrix(cordee::detail::device::fragment& f, const void* row,
                  std::source_location where = std::source_location::current()) {
      const emulator_section section;
      gather_rows(f, row, {"ldmatrix", where});
    }
    void ldmatrix_trans(cordee::detail::device::fragment& f, const void* row,
                        std::source_location where = std::source_location::current()) {
      const emulator_section section;
      gather_rows(f, row, {"ldmatrix_trans", where, true});
    }
    template <class Mma, int M, int N>
    void mma(const cordee::detail::device::fragment (&a)[M],
             const cordee::detail::device::fragment (&b)[N],
             cordee::detail::device::accumulator_fragment<Mma> (&c)[M][N],
             std::source_location where = std::source_location::current()) {
      const emulator_section section;
      gathered_warp& warp = own_warp();
      warp.a[lane()] = a;
      warp.b[lane()] = b;
      warp.c[lane()] = c;
      block_.gather(thread_, {"mma", where, false, M, N}, [&] { multiply_fragments<Mma>(warp); });
    }

   private:
    [[nodiscard]] int lane() const { return thread_ % 32; }
    [[nodiscard]] fiber& own() { return block_.fibers_[static_cast<std::size_t>(thread_)]; }
    [[nodiscard]] gathered_warp& own_warp() {
      return block_.warps_[static_cast<std::size_t>(thread_ / 32)];
    }
    void gather_rows(cordee::detail::device::fragment& f, const void* row,
                     const warp_instruction& instruction) {
      gathered_warp& warp = own_warp();
      warp.rows[lane()] = static_cast<const std::byte*>(row);
      warp.loaded[lane()] = &f;
      block_.gather(thread_, instruction, [&] {
        if (observer != nullptr) observer->ldmatrix(thread_ - lane(), warp.rows);
        load_matrices(warp);
      });
    }

    emulated_thread_block& block_;
    int thread_;
    std::size_t used_ = 0, arrays_ = 0;
  };

  /// Counters of this thread's launch at which some blocks have arrived and not all.
  static inline thread_local int open_counters = 0;

  /// Becomes block `index` of `blocks` of the kernel, which outlives the block.
  template <class Kernel>
  void begin(const Kernel& kernel, std::size_t index, std::size_t blocks) {
    std::memset(shared_.data(), 0xff, shared_.size() * sizeof(unit));
    kernel_ = &kernel;
    type_ = &typeid(Kernel);
    run_thread_ = [](void* block, int t) {
      auto& self = *static_cast<emulated_thread_block*>(block);
      run_thread(*static_cast<const Kernel*>(self.kernel_), view(self, t));
    };
    index_ = index;
    blocks_ = blocks;
    first_runnable_ = 0;
    for (fiber& f : fibers_) {
      f.at = state::runnable;
      f.copies = {};
    }
    for (gathered_warp& warp : warps_) warp.arrived = 0;
    last_warp_ = -1;
    if (observer != nullptr)
      observer->begin_block(slot_, index, shared_.data(), shared_.size() * sizeof(unit));
  }

  /// Runs each runnable thread until it is suspended, in an order drawn from `random`; one warp,
  /// drawn for every barrier, runs when no other can. Returns false when all threads have finished.
  bool advance(std::mt19937_64& random) {
    if (last_warp_ < 0) last_warp_ = static_cast<int>(random() % warps_.size());
    if (run_threads(random, [&](int t) { return t / 32 != last_warp_; }) ||
        run_threads(random, [](int) { return true; }))
      return true;
    last_warp_ = -1;
    if (count(state::finished) == std::ssize(fibers_)) return end();
    if (count(state::at_block_barrier) != std::ssize(fibers_))
      throw cordee::error("divergent barrier: " + describe_threads());
    if (observer != nullptr) observer->barrier(slot_);
    for (fiber& f : fibers_) f.at = state::runnable;
    return true;
  }
  /// The same for a kernel without barriers: runs one warp, its threads without fibers.
  bool advance_independent() {
    for (const int end = std::min(first_runnable_ + 32, threads_); first_runnable_ < end;) {
      if (observer != nullptr) observer->enter_thread(slot_, first_runnable_, nullptr, 0);
      run_thread_(this, first_runnable_++);
    }
    return first_runnable_ < threads_ || end();
  }

 private:
  using unit = std::max_align_t;
  static constexpr std::size_t gap_bytes = 128, max_gaps = 8;

  struct fiber {
    fibers::fiber stack;
    state at = state::runnable;
    pending_copies copies;
  };

  template <class Kernel>
  SUPPORT_FLATTEN static void run_thread(const Kernel& kernel, view block) {
    const kernel_section section;
    kernel(block);
  }
  bool end() {
    if (observer != nullptr) observer->barrier(slot_);
    return false;
  }

  /// Runs each runnable thread for which which(t), until it is suspended. Returns whether there was
  /// one.
  template <class Which>
  bool run_threads(std::mt19937_64& random, const Which& which) {
    bool any = false;
    std::shuffle(order_.begin(), order_.end(), random);
    for (const int t : order_) {
      fiber& f = fibers_[static_cast<std::size_t>(t)];
      if (f.at != state::runnable || !which(t)) continue;
      any = true;
      if (observer != nullptr)
        observer->enter_thread(slot_, t, f.stack.stack(), fibers::fiber::stack_bytes);
      if (f.stack.resume(run_thread_, this, t)) f.at = state::finished;
    }
    return any;
  }
  void arrive(unsigned* arrived, unsigned blocks) {
    if (*arrived == 0) ++open_counters;
    is_last_ = ++*arrived == blocks;
    if (is_last_) *arrived = 0;
    if (is_last_) --open_counters;
    if (observer != nullptr) observer->arrive(slot_, arrived, is_last_);
  }
  /// Suspends this thread. Returns when it is resumed.
  void suspend(int thread, state s) {
    fiber& f = fibers_[static_cast<std::size_t>(thread)];
    f.at = s;
    f.stack.suspend();
  }

  /// Suspends this thread until all lanes of its warp have arrived at the instruction, which the
  /// last of them executes for all.
  template <class Execute>
  void gather(int thread, const warp_instruction& instruction, const Execute& execute) {
    gathered_warp& warp = warps_[static_cast<std::size_t>(thread / 32)];
    if (warp.arrived != 0 && !(warp.instruction == instruction))
      throw cordee::error(cordee::concat("divergent warp: lane ", thread % 32, " of warp ",
                                         thread / 32, " is at ", describe(instruction), ": ",
                                         describe_threads()));
    warp.instruction = instruction;
    warp.arrived |= 1u << thread % 32;
    if (warp.arrived != ~0u) return suspend(thread, state::at_warp_barrier);
    warp.arrived = 0;
    execute();
    const auto first = fibers_.begin() + thread / 32 * 32;
    std::for_each(first, first + 32, [](fiber& f) { f.at = state::runnable; });
  }

  [[nodiscard]] std::ptrdiff_t count(state s) const {
    return std::count_if(fibers_.begin(), fibers_.end(), [s](const fiber& f) { return f.at == s; });
  }
  [[nodiscard]] std::string kernel_name() const { return type_name(*type_); }
  [[nodiscard]] std::string describe_threads() const {
    std::string text =
        cordee::concat(count(state::finished), " of ", fibers_.size(), " threads of block ", index_,
                       " have finished, ", count(state::at_warp_barrier), " wait for their warps, ",
                       count(state::at_block_barrier), " for the block");
    for (std::size_t w = 0; w < warps_.size(); ++w)
      if (warps_[w].arrived != 0)
        text += cordee::concat("; of warp ", w, " the lanes ", describe_lanes(warps_[w].arrived),
                               " wait at ", describe(warps_[w].instruction));
    return text + "; kernel " + kernel_name();
  }

  std::size_t slot_;
  int threads_;
  std::vector<fiber> fibers_;
  std::vector<unit> shared_;
  std::size_t shared_units_;
  std::vector<double> parts_;  // of a sum
  bool is_last_ = false;
  std::vector<gathered_warp> warps_;
  std::vector<int> order_;
  fibers::fiber::function run_thread_ = nullptr;
  const void* kernel_ = nullptr;
  const std::type_info* type_ = nullptr;
  std::size_t index_ = 0, blocks_ = 0;
  int last_warp_ = -1, first_runnable_ = 0;
};

}  // namespace support
