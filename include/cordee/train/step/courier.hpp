// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The courier: it carries buckets to the reducer while backward continues.
//
// One queue in the order of the buckets, which the model fixes and all ranks share. Where the
// communicator blocks the host the courier is a thread of the rank; where time is virtual
// (comm/transports/simulated.hpp), a task of it, from when a bucket is posted until none is left;
// otherwise `mix` runs in the thread that posts. Reducers that are work of a stream have a courier
// of their own (enqueued_courier.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/condition.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/owned_array.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/core/trace.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// A bucket on its way to the reducer.
template <class R, class Real, class D>
struct posted_bucket {
  bucket_view<Real, D, R::slots> view;
  step_info info;
};
/// What follows each bucket's exchange, on the stream that has it.
template <class Real, class D>
struct mixed_callback {
  void* context = nullptr;
  void (*call)(void*, const bucket&, span_on<Real, D>, typename D::stream) = nullptr;

  template <int Slots>
  void operator()(const bucket_view<Real, D, Slots>& mixed, typename D::stream s) const {
    if (call != nullptr) call(context, *mixed.layout, mixed.values, s);
  }
};
/// "step 12, round 12, bucket 3 (layer1.0.conv1.weight to fc.bias, 4096 bytes)"
template <class R, class Real, class D>
[[gnu::cold]] std::string describe(const posted_bucket<R, Real, D>& p) {
  const bucket& b = *p.view.layout;
  const bool has_names = !b.segments.empty();
  return concat("step ", p.info.step, ", round ", p.info.round, ", bucket ", b.index, " (",
                has_names ? b.segments.front().name : "", has_names ? " to " : "",
                has_names ? b.segments.back().name : "", has_names ? ", " : "",
                p.view.values.size * sizeof(Real), " bytes)");
}

/// An exchange goes before compute where the device has priorities: other ranks wait for it.
template <class D>
typename D::stream make_exchange_stream(const D& device) {
  if constexpr (D::host_memory)
    return {};
  else if constexpr (requires { device.make_high_priority_stream(); })
    return device.make_high_priority_stream();
  else
    return device.make_stream();
}

/// Runs `reducer.mix` for one bucket after another. An exception of mix aborts the peers and is
/// rethrown by finish().
template <class R, class Real, Device D, bool IsStreamWork = false>
class courier {
 public:
  using stream = typename D::stream;
  using posted_bucket = train::posted_bucket<R, Real, D>;

  /// A step posts at most so many `buckets`.
  explicit courier(const R& reducer, const D& device, std::size_t buckets)
      : reducer_(reducer), device_(device), queue_(beside ? buckets : 0), closing_(virtual_time) {
    if constexpr (comm::HasSources<R>)
      last_by_rank_ =
          core::owned_array<mixed_bucket>(static_cast<std::size_t>(reducer.comm.size()));
    if constexpr (beside)
      if (is_threaded()) {
        stream_ = make_exchange_stream(device);
        if constexpr (!virtual_time) thread_ = detail::core::start_thread<&courier::serve>(*this);
      }
  }
  courier(const courier&) = delete;
  courier& operator=(const courier&) = delete;
  [[gnu::cold]] ~courier() {
    if (!thread_.joinable()) return;
    {
      const core::scoped_lock lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// From now on what a step posts is finished so many steps later, one step's buckets at a time.
  void delay_by(std::int64_t steps) { delay_ = steps; }
  /// Blocks until nothing is left of a step that threw.
  void begin_step(const step_info& info) {
    step_ = info.step;
    if (delay_ == 0 || queued_ == 0 || step_ > begun_ + delay_) finish_delayed();
  }
  /// Queues one bucket, which is complete once `s` has done the work launched so far. Requires that
  /// its range is not accessed before finish() returns.
  void post(const posted_bucket& b, stream s) {
    begun_ = b.info.step;
    if constexpr (beside)
      if (is_threaded()) return enqueue(b, s);
    mix(b, s);
  }

  void replayed() {}
  /// From now on each bucket is followed by that.
  void follow_by(const mixed_callback<Real, D>& f) { mixed_ = f; }
  /// Blocks until the first `count` buckets of this step are mixed, or one has failed.
  void wait_for(std::size_t count) {
    if constexpr (beside && !virtual_time) {
      core::unique_lock lock(mutex_);
      while (is_threaded() && !failure_ && (taken_ < count || (taken_ == count && mixing_)))
        changed_.wait(lock);  // each mix has a deadline
    }
  }
  /// finish_delayed(), unless a later step does that.
  void finish(stream s = stream{}) {
    if (delay_ == 0 || step_ >= begun_ + delay_) finish_delayed(s);
  }
  /// Blocks until every posted bucket is mixed; throws what a mix has thrown.
  void finish_delayed(stream = stream{}) {
    if constexpr (virtual_time) {
      if (thread_.joinable()) {
        thread_.join();  // from which this fiber may be unwound, and the destructor then joins
        thread_ = {};    // it may still count as joinable
      }
      queued_ = taken_ = 0;
      if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    } else if constexpr (beside) {
      core::unique_lock lock(mutex_);
      while (taken_ < queued_ || mixing_) changed_.wait(lock);  // each mix has a deadline
      queued_ = taken_ = 0;
      if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }

  [[nodiscard]] const auto& comm() const { return reducer_.comm; }
  /// Whether buckets are mixed beside the caller, so that finish() blocks it.
  [[nodiscard]] bool is_threaded() const { return beside && reducer_.comm.size() > 1; }

  /// "last finished: step 12, ..."
  [[nodiscard, gnu::cold]] std::string last_finished() const {
    const core::scoped_lock lock(mutex_);
    return concat("last finished: ", last_.count == 0 ? "nothing" : describe(last_.bucket));
  }
  /// For each other rank the last exchange that it must have taken part in, since it is complete
  /// here. An exact mean involves all ranks, gossip the sources of the round.
  [[nodiscard, gnu::cold]] std::vector<detail::comm::completed_op> completed() const {
    const core::scoped_lock lock(mutex_);
    std::vector<detail::comm::completed_op> ops;
    for (int rank = 0; rank < reducer_.comm.size(); ++rank)
      if (const mixed_bucket* const m = last_with(rank); m != nullptr && m->count > 0) {
        const detail::comm::completed_op last{
            m->count, describe(m->bucket), {comm::world_rank(reducer_.comm, rank)}};
        comm::merge(ops, last);  // a name, since nvcc 13 loses braces in arguments
      }
    return ops;
  }

 private:
  using communicator = typename R::communicator_type;
  static constexpr bool virtual_time = comm::HasVirtualTime<communicator>;
  static constexpr bool beside = virtual_time || communicator::blocks_host;

  struct queued_bucket {
    posted_bucket bucket;
    typename std::conditional_t<virtual_time, communicator, D>::event complete;
    core::trace_sink* sinks = nullptr;
  };
  struct mixed_bucket {
    posted_bucket bucket;
    std::int64_t count = 0;  // of buckets mixed so far, this one included
  };

  void enqueue(const posted_bucket& b, stream s) {
    {
      const core::scoped_lock lock(mutex_);
      expects(queued_ < queue_.size(), "courier: a step posts each bucket once");
      if constexpr (virtual_time)
        queue_[queued_++] = {b, reducer_.comm.record(), core::trace_sinks};
      else
        queue_[queued_++] = {b, device_.record(s), core::trace_sinks};
    }
    if constexpr (virtual_time)
      start_task();
    else
      changed_.notify_all();
  }
  // Unless a task serves that has not ended; its clock begins no earlier than the last one's ended.
  void start_task() {
    if (std::exchange(serving_, true)) return;
    thread_ = reducer_.comm.start_task([this, before = std::exchange(thread_, {})]() mutable {
      if (before.joinable()) before.join();
      serve();
      serving_ = false;
    });
  }

  [[gnu::cold]] void serve() {
    core::unique_lock lock(mutex_);
    for (;;) {
      while (!closing_ && taken_ == queued_) changed_.wait(lock);
      if (taken_ == queued_) return;
      const queued_bucket next = queue_[taken_++];
      if (failure_) {  // this step has failed: drop its remaining buckets
        changed_.notify_all();
        continue;
      }
      mixing_ = true;
      lock.unlock();
      std::exception_ptr thrown = mix_or_abort(next);
      lock.lock();
      mixing_ = false;
      failure_ = thrown;
      changed_.notify_all();
    }
  }

  [[gnu::cold]] void mix(const posted_bucket& b, stream s) {
    const core::trace_range range("exchange", b.view.layout->index, core::trace_track::exchange);
    if constexpr (comm::single_rank<typename R::communicator_type>) {
      reducer_.mix(b.view, b.info, s);
      mixed_(b.view, s);
    } else {
      const auto context = [&] { return concat(describe(b), "; ", last_finished()); };
      const auto ops = [this] { return completed(); };
      const detail::comm::error_context scope(context, ops);
      reducer_.mix(b.view, b.info, s);
      mixed_(b.view, s);
      const core::scoped_lock lock(mutex_);
      last_ = {b, last_.count + 1};
      if constexpr (comm::HasSources<R>)
        for (const int rank : reducer_.sources(b.info))
          last_by_rank_[static_cast<std::size_t>(rank)] = last_;
    }
  }
  std::exception_ptr mix_or_abort(const queued_bucket& b) {
    try {
      core::trace_sinks = b.sinks;
      if constexpr (virtual_time)
        reducer_.comm.await(b.complete);
      else
        device_.await(stream_, b.complete);
      mix(b.bucket, stream_);
      device_.finish(stream_);
      return nullptr;
    } catch (const std::exception& e) {
      comm::abort(reducer_.comm, e.what());
      return std::current_exception();
    } catch (...) {
      comm::abort(reducer_.comm, "the reducer threw something that is not a std::exception");
      if constexpr (virtual_time) {  // a fiber may be unwound, which nothing catches for good
        failure_ = std::current_exception();
        mixing_ = serving_ = false;
        throw;
      }
      return std::current_exception();
    }
  }

  [[nodiscard]] const mixed_bucket* last_with(int rank) const {
    if constexpr (comm::HasSources<R>) return &last_by_rank_[static_cast<std::size_t>(rank)];
    return R::offers == agreement::exact ? &last_ : nullptr;
  }
  const R& reducer_;
  mixed_callback<Real, D> mixed_;
  D device_;
  stream stream_{};  // the thread's own, so that the compute stream does not wait for exchanges
  mutable core::mutex mutex_;
  detail::core::condition changed_;
  core::owned_array<queued_bucket> queue_;  // of this step
  std::size_t queued_ = 0;                  // how many of them are posted
  std::size_t taken_ = 0;                   // and how many of those the thread has taken
  std::int64_t step_ = 0;                   // this step
  std::int64_t begun_ = 0;                  // that of the last post
  std::int64_t delay_ = 0;                  // steps from a post to its finish
  mixed_bucket last_;
  core::owned_array<mixed_bucket> last_by_rank_;  // the last one with each rank, if HasSources
  std::exception_ptr failure_;
  bool mixing_ = false, closing_, serving_ = false;
  typename comm::background<communicator>::type thread_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
