// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What carries buckets to the reducer while backward goes on.
//
// One queue, in the order of the buckets, which the model fixes and all ranks share. Where the link
// blocks the host the courier is a thread of the rank; otherwise `mix` runs where it is posted.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <cordee/comm/reducer.hpp>

namespace cordee::inline CORDEE_ABI {

template <class R, class Real, Device D>
class courier {
 public:
  struct letter {
    message<Real, D, R::slots> what;
    moment now;
  };

  explicit courier(const R& reducer) : reducer_(reducer) {
    if (R::link_type::blocks_host && reducer.link.size() > 1)
      thread_ = std::thread([this] { serve(); });
  }
  courier(const courier&) = delete;
  courier& operator=(const courier&) = delete;
  ~courier() {
    {
      const std::scoped_lock lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// Hands over one bucket; its range may not be touched before `finish` returns.
  void post(const letter& l) {
    if (!thread_.joinable()) return reducer_.mix(l.what, l.now, typename D::stream{});
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back(l);
    }
    changed_.notify_all();
  }

  /// Waits until every bucket is back; throws what a mix has thrown.
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !carrying_; });  // each mix has a deadline
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const letter l = queue_.front();
      queue_.pop_front();
      if (failure_) {  // the round is lost: drop what was posted after it
        changed_.notify_all();
        continue;
      }
      carrying_ = true;
      lock.unlock();
      std::exception_ptr thrown = carry(l);
      lock.lock();
      carrying_ = false;
      failure_ = thrown;
      changed_.notify_all();
    }
  }

  std::exception_ptr carry(const letter& l) {
    try {
      reducer_.mix(l.what, l.now, typename D::stream{});
      return nullptr;
    } catch (const std::exception& e) {
      abandon(reducer_.link, e.what());
      return std::current_exception();
    } catch (...) {
      abandon(reducer_.link, "the reducer threw something that is not a std::exception");
      return std::current_exception();
    }
  }

  const R& reducer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<letter> queue_;
  std::exception_ptr failure_;
  bool carrying_ = false, closing_ = false;
  std::thread thread_;
};

}  // namespace cordee::inline CORDEE_ABI
