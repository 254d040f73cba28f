// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Updates ahead: while the caller uses the micro-batches of step k, a thread makes those of k + 1
// to k + depth.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <utility>

#include <cordee/core/condition.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail::data {

/// The samples of one rank in one update, cut into micro-batches, which refer to them.
struct rank_update {
  std::int64_t step = -1;
  detail::core::pod_vector<std::uint8_t> pixels;
  detail::core::pod_vector<std::int32_t> labels;
  detail::core::pod_vector<std::int32_t> other_labels;  // of mixed samples, otherwise empty
  detail::core::pod_vector<float> label_weights;        // likewise
  detail::core::pod_vector<batch<cpu>> micro;
};

/// `depth` + 1 updates and the thread that fills some of them while the caller uses another. The
/// thread starts at the first `take`. Cold: it runs once a step, so it is compiled for size.
class prefetcher {
 public:
  static constexpr int most_depth = 7;
  using fill_function = void (*)(void* source, rank_update& update);

  /// fill(source, update) makes the samples of update.step. `source` must outlive the prefetcher.
  /// Requires 1 <= depth <= most_depth.
  [[gnu::cold]] prefetcher(void* source, fill_function fill, int depth = 1)
      : source_(source), fill_(fill), depth_(depth) {}
  prefetcher(const prefetcher&) = delete;
  prefetcher& operator=(const prefetcher&) = delete;
  [[gnu::cold, gnu::noinline]] ~prefetcher() {
    if (!thread_.joinable()) return;
    {
      const core::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  [[nodiscard]] int depth() const { return depth_; }

  /// Returns the update of `step`, valid until the next call, and requests the `depth` after it.
  /// Blocks until it is filled; throws what `fill` threw, and requests nothing then.
  [[gnu::cold]] rank_update& take(std::int64_t step) {
    if (!thread_.joinable()) thread_ = detail::core::start_thread<&prefetcher::serve>(*this);
    core::unique_lock lock(mutex_);
    if (step != expected_) {
      stop_filling(lock);
      failure_ = nullptr;
      next_ = step;
      request_until(step + 1);
    }
    while (next_ <= step && !failure_) changed_.wait(lock);
    if (next_ <= step) {
      expected_ = -1;
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    expected_ = step + 1;
    request_until(step + 1 + depth_);
    return update(step);
  }

  /// Forgets the updates ahead: what `fill` reads may change until the next `take`.
  [[gnu::cold]] void forget() {
    core::unique_lock lock(mutex_);
    stop_filling(lock);
    expected_ = -1;
  }

 private:
  void stop_filling(core::unique_lock& lock) {
    end_ = next_;
    while (filling_) changed_.wait(lock);
  }

  // Updates before next_ are filled; that of next_, while filling_, and failure_ belong to the
  // thread.
  [[nodiscard]] rank_update& update(std::int64_t step) {
    return updates_[static_cast<std::size_t>(step % (depth_ + 1))];
  }

  void request_until(std::int64_t end) {
    end_ = end;
    changed_.notify_all();
  }

  [[gnu::cold]] void serve() {
    core::unique_lock lock(mutex_);
    for (;;) {
      while (!stop_ && (next_ >= end_ || failure_)) changed_.wait(lock);
      if (stop_) return;
      rank_update& u = update(next_);
      u.step = next_;
      filling_ = true;
      lock.unlock();
      std::exception_ptr failure;
      try {
        fill_(source_, u);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      filling_ = false;
      if (failure)
        failure_ = failure;
      else
        ++next_;
      changed_.notify_all();
    }
  }

  void* source_;
  fill_function fill_;
  int depth_;

  core::mutex mutex_;
  detail::core::condition changed_;
  std::int64_t expected_ = -1;       // the step of the next `take` in sequence
  std::int64_t next_ = 0, end_ = 0;  // the steps that are requested
  bool filling_ = false, stop_ = false;
  std::exception_ptr failure_;  // of step next_
  std::array<rank_update, most_depth + 1> updates_;
  detail::core::thread thread_;
};

/// A prefetcher's depth for loader_options::prefetch, which is checked later; a wrong number is 1.
[[gnu::cold]] constexpr int updates_ahead(int asked, bool many_threads) {
  if (asked == 0) return many_threads ? 2 : 1;
  return asked > 0 && asked <= prefetcher::most_depth ? asked : 1;
}

}  // namespace cordee::inline CORDEE_ABI::detail::data
