// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One update ahead: while the caller uses the micro-batches of step k, a thread makes those of k +
// 1.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

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
  detail::core::pod_vector<batch<cpu>> micro;
};

/// Two updates and the thread that fills one of them while the caller uses the other. The thread
/// starts at the first `take`. Cold: it runs once a step, so it is compiled for size.
class prefetcher {
 public:
  using fill_function = void (*)(void* source, rank_update& update);

  /// fill(source, update) makes the samples of update.step. `source` must outlive the prefetcher.
  prefetcher(void* source, fill_function fill) : source_(source), fill_(fill) {}
  prefetcher(const prefetcher&) = delete;
  prefetcher& operator=(const prefetcher&) = delete;
  [[gnu::cold, gnu::noinline]] ~prefetcher() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Returns the update of `step`, valid until the next call, and requests the one of step + 1.
  /// Blocks until it is filled; throws what `fill` threw, and requests nothing then.
  [[gnu::cold]] rank_update& take(std::int64_t step) {
    if (!thread_.joinable()) thread_ = detail::core::start_thread<&prefetcher::serve>(*this);
    std::unique_lock lock(mutex_);
    const auto idle = [&] { return state_ != state::requested; };
    changed_.wait(lock, idle);
    if (state_ == state::empty || back().step != step) {
      request(step);
      changed_.wait(lock, idle);
    }
    state_ = state::empty;
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    front_ = 1 - front_;
    request(step + 1);
    return updates_[front_];
  }

 private:
  // The back update and failure_ belong to the thread while requested, otherwise to the caller.
  enum class state { empty, requested, filled };

  [[nodiscard]] rank_update& back() { return updates_[1 - front_]; }

  void request(std::int64_t step) {
    back().step = step;
    failure_ = nullptr;
    state_ = state::requested;
    changed_.notify_all();
  }

  [[gnu::cold]] void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || state_ == state::requested; });
      if (stop_) return;
      rank_update& update = back();
      lock.unlock();
      try {
        fill_(source_, update);
      } catch (...) {
        failure_ = std::current_exception();
      }
      lock.lock();
      state_ = state::filled;
      changed_.notify_all();
    }
  }

  void* source_;
  fill_function fill_;

  std::mutex mutex_;
  std::condition_variable changed_;
  state state_ = state::empty;
  bool stop_ = false;
  std::array<rank_update, 2> updates_;
  std::size_t front_ = 0;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::data
