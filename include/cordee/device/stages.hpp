// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Work in stages that the workers of a pool share within one parallel section: a stage is divided
// into parts, and begins when all parts of the one before have ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cordee/core/equal_part.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/device/pool.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// A worker takes the part of its own number first, whose data its cache may have, then parts that
/// no other worker has begun. So a worker that wakes late or has lost its core delays the others by
/// no more than the part in which it is.
class stages {
 public:
  explicit stages(std::size_t workers) : lines_(1 + workers) {}

  /// Before a parallel section.
  void reset() {
    for (line& l : lines_) l.count.store(0, std::memory_order_relaxed);
  }

  /// A worker in a parallel section. All workers call `run` as often, with the same numbers of
  /// parts.
  class worker {
   public:
    worker(stages& all, std::size_t number) : all_(&all), number_(number) {}

    [[nodiscard]] std::size_t number() const { return number_; }

    /// One stage, of at most as many parts as there are workers: calls f(part) for some of them;
    /// returns when all have ended, and what they have written can be read. A part that throws has
    /// ended, so that no other worker waits for it; the exception leaves this worker's run.
    template <class F>
    void run(std::size_t parts, const F& f) {
      ++stage_;
      ended_ += parts;
      if (all_->ended(ended_)) return;  // this worker is late
      for (std::size_t k = 0; k < parts; ++k) {
        const core::equal_part part{(number_ + k) % parts, parts};
        if (!all_->begin(part.index, stage_)) continue;
        const end_of_part end{all_};
        f(part);
      }
      all_->wait(ended_);
    }

   private:
    struct end_of_part {
      stages* all;
      ~end_of_part() { all->end(); }
    };
    stages* all_;
    std::size_t number_;
    std::uint64_t stage_ = 0, ended_ = 0;  // the stage's number; parts at its end
  };

 private:
  struct alignas(64) line {
    std::atomic<std::uint64_t> count{0};
  };

  [[nodiscard]] bool begin(std::size_t part, std::uint64_t stage) {
    std::atomic<std::uint64_t>& begun = lines_[1 + part].count;
    std::uint64_t before = begun.load(std::memory_order_relaxed);
    return before < stage &&
           begun.compare_exchange_strong(before, stage, std::memory_order_relaxed);
  }
  void end() { lines_[0].count.fetch_add(1, std::memory_order_acq_rel); }
  [[nodiscard]] bool ended(std::uint64_t parts) const {
    return lines_[0].count.load(std::memory_order_acquire) >= parts;
  }
  /// Does not sleep: what is awaited is less than a stage.
  void wait(std::uint64_t parts) const {
    for (int polls = 0; !ended(parts);)
      if (!keep_spinning(++polls)) {
        core::yield();
        --polls;
      }
  }

  /// The parts that have ended; then of each part the last stage in which it was begun.
  std::vector<line> lines_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::device
