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
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cordee/comm/errand.hpp>
#include <cordee/comm/reducer.hpp>
#include <cordee/core/text.hpp>
#include <cordee/core/thread.hpp>

namespace cordee::inline CORDEE_ABI {

template <class R, class Real, Device D>
class courier {
 public:
  using stream = typename D::stream;
  struct letter {
    message<Real, D, R::slots> what;
    moment now;
  };

  explicit courier(const R& reducer, const D& device) : reducer_(reducer), device_(device) {
    if constexpr (Hears<R>) heard_.resize(static_cast<std::size_t>(reducer.link.size()));
    if constexpr (threaded)
      if (reducer.link.size() > 1) {
        if constexpr (!D::host_memory) stream_ = device.open();  // the compute stream goes on
        thread_ = start<&courier::serve>(*this);
      }
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

  /// Hands over one bucket, whole when `s` is done with what it has to do by now; its range may not
  /// be touched before `finish` returns.
  void post(const letter& l, stream s) {
    if constexpr (threaded)
      if (thread_.joinable()) return hand_over(l, s);
    mix(l, s);
  }

  /// Waits until every bucket is back; throws what a mix has thrown.
  void finish() {
    if constexpr (threaded) {
      std::unique_lock lock(mutex_);
      while (taken_ < queue_.size() || carrying_) changed_.wait(lock);  // each mix has a deadline
      queue_.clear();
      taken_ = 0;
      if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }

  /// "last finished: step 12, ..."
  [[nodiscard, gnu::cold]] std::string last_finished() const {
    const std::scoped_lock lock(mutex_);
    return "last finished: " + (last_.count == 0 ? "nothing" : said_of(last_.what));
  }
  /// What other ranks have had part in, for this one has finished it. An exact mean takes all.
  [[nodiscard, gnu::cold]] std::vector<milestone> reached() const {
    const std::scoped_lock lock(mutex_);
    std::vector<milestone> all;
    for (int k = 0; k < reducer_.link.size(); ++k)
      if (const mixed* const m = last_with(k); m != nullptr && m->count > 0)
        all.push_back({m->count, said_of(m->what), {rank_in_run(reducer_.link, k)}});
    return all;
  }

 private:
  // Elsewhere nothing of a queue is compiled.
  static constexpr bool threaded = R::link_type::blocks_host;

  struct posted {
    letter what;
    typename D::event whole;
  };
  struct mixed {
    letter what;
    std::int64_t count = 0;  // of all that were
  };

  void hand_over(const letter& l, stream s) {
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back({l, device_.record(s)});
    }
    changed_.notify_all();
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      while (!closing_ && taken_ == queue_.size()) changed_.wait(lock);
      if (taken_ == queue_.size()) return;
      const posted p = queue_[taken_++];
      if (failure_) {  // the round is lost: drop what was posted after it
        changed_.notify_all();
        continue;
      }
      carrying_ = true;
      lock.unlock();
      std::exception_ptr thrown = carry(p);
      lock.lock();
      carrying_ = false;
      failure_ = thrown;
      changed_.notify_all();
    }
  }

  void mix(const letter& l, stream s) {
    const auto words = [&] { return text(said_of(l), "; ", last_finished()); };
    const auto parts = [this] { return reached(); };
    const errand here(words, parts);
    reducer_.mix(l.what, l.now, s);
    const std::scoped_lock lock(mutex_);
    last_ = {l, last_.count + 1};
    if constexpr (Hears<R>)
      for (const int peer : reducer_.hears(l.now)) heard_[static_cast<std::size_t>(peer)] = last_;
  }
  [[nodiscard]] const mixed* last_with(int rank) const {
    if constexpr (Hears<R>) return &heard_[static_cast<std::size_t>(rank)];
    return R::offers == agreement::exact ? &last_ : nullptr;
  }
  // "step 12, round 12, bucket 3 (layer1.0.conv1.weight to fc.bias, 4096 bytes)"
  [[gnu::cold]] static std::string said_of(const letter& l) {
    const bucket& b = *l.what.which;
    const bool named = !b.segments.empty();
    return text("step ", l.now.step, ", round ", l.now.round, ", bucket ", b.index, " (",
                named ? b.segments.front().name : "", named ? " to " : "",
                named ? b.segments.back().name : "", named ? ", " : "",
                l.what.what.size * sizeof(Real), " bytes)");
  }

  std::exception_ptr carry(const posted& p) {
    try {
      device_.await(stream_, p.whole);
      mix(p.what, stream_);
      device_.finish(stream_);
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
  D device_;
  stream stream_{};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<posted> queue_;  // of this step
  std::size_t taken_ = 0;
  mixed last_;
  std::vector<mixed> heard_;  // the last with each rank, where these are not all
  std::exception_ptr failure_;
  bool carrying_ = false, closing_ = false;
  std::thread thread_;
};

}  // namespace cordee::inline CORDEE_ABI
