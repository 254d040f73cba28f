// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One job at a time on a thread of its own, beside training.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <utility>

#include <cordee/core/condition.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/thread.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

class background_job {
 public:
  background_job() = default;
  background_job(const background_job&) = delete;
  background_job& operator=(const background_job&) = delete;
  ~background_job() {
    if (thread_.joinable()) thread_.join();
  }

  /// Waits for the job before, and throws what it threw; then starts this one.
  void start(std::function<void()> job) {
    wait();
    job_ = std::move(job);
    finished_ = false;
    thread_ = core::start_thread<&background_job::run>(*this);
  }
  /// Whether no job is running.
  [[nodiscard]] bool finished() const { return finished_within(std::chrono::seconds(0)); }
  /// Blocks until no job is running, but not longer than `time`; returns whether none is.
  [[nodiscard]] bool finished_within(std::chrono::steady_clock::duration time) const {
    core::unique_lock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + time;
    while (!finished_ && std::chrono::steady_clock::now() < end)
      ended_.wait_until(lock, end.time_since_epoch().count());
    return finished_;
  }
  /// Blocks until the job has finished; throws what it threw.
  void wait() {
    if (thread_.joinable()) thread_.join();
    job_ = nullptr;
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void run() {
    try {
      job_();
    } catch (...) {
      failure_ = std::current_exception();
    }
    const core::scoped_lock lock(mutex_);
    finished_ = true;
    ended_.notify_all();
  }

  std::function<void()> job_;
  std::exception_ptr failure_;
  mutable core::mutex mutex_;
  mutable core::condition ended_;
  bool finished_ = true;
  core::thread thread_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
