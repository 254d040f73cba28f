// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The courier of reducers whose exchange is work of a stream: no thread, and no wait of the host
// before the step's own.
//
//   compute stream   backward -- event --> ... backward ----- event --> finish_reduction, accept
//   courier's stream             mark, exchange, mark ---------^
//
// All of it may be captured in one graph, since both streams are joined by events. What the host
// posts, and so what it launches, is in the order of the buckets, which all ranks share.
//
// The device marks in page-locked memory which bucket it has begun and which it has finished. So
// the host's wait, which polls, names the bucket that is stuck, in a replayed graph as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cordee/comm/failure/completed_op.hpp>
#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/atomic.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/trace.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/pinned.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/train/step/courier.hpp>
#include <cordee/train/step/readback.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Whether buckets are exchanged as work of a stream: the host then reads the step's results after
/// one wait, which watches the exchange as well.
template <class M, class R>
concept ExchangesOnStream =
    nn::HasDeviceMetrics<M> &&
    comm::EnqueuableOn<R, typename M::precision::master, typename M::device>;

/// The options as a trainer uses them. Where the host sums batch statistics, they and the courier's
/// buckets are of two contexts: without overlap these are not in use at once.
template <class M, class R>
trainer_options options_over(const R& reducer, trainer_options o) {
  using transport = typename R::communicator_type;
  expects(o.max_nonfinite_steps > 0,
          "trainer: max_nonfinite_steps is a number of steps in a row, at least 1");
  expects(o.max_nonfinite_share >= 0 && o.max_nonfinite_share <= 1,
          "trainer: max_nonfinite_share is a share of the steps, from 0 to 1");
  if constexpr (requires { requires !M::captures_graphs && !M::device::host_memory; })
    expects(!o.capture_graphs,
            "trainer: capture_graphs is for networks of the library's layers: the function of a "
            "model of your own submits its kernels anew in each pass, so leave it out");
  if constexpr (!comm::single_rank<transport> && !comm::has_concurrent_contexts<transport>()) {
    const int ranks = reducer.comm.size(), over = o.batch_norm_over;
    const bool on_stream = ExchangesOnStream<M, R> && (over == 0 || over == ranks);
    if (over != 1 && ranks > 1 && !on_stream) o.overlap = false;
  }
  return o;
}

/// Used by the computing thread, for at most `buckets` buckets a step.
template <class R, class Real, Device D>
class courier<R, Real, D, true> {
 public:
  using stream = typename D::stream;
  using posted_bucket = train::posted_bucket<R, Real, D>;

  courier(const R& reducer, const D& device, std::size_t buckets)
      : reducer_(reducer), device_(device) {
    if (is_single_rank()) return;
    stream_ = make_exchange_stream(device);
    posted_.reserve(buckets);
    begun_ = device::pinned<std::uint64_t, D>(device, 1);
    begun_.span()[0] = 0;
    numbers_ = buffer<std::uint64_t, D>(device, 2 * buckets + 1);
    std::vector<std::uint64_t> numbers;
    while (numbers.size() < numbers_.size()) numbers.push_back(numbers.size());
    device_.copy(numbers_.span().data, numbers.data(), numbers.size() * sizeof(numbers[0]),
                 stream_);
    device_.finish(stream_);
  }
  courier(const courier&) = delete;
  courier& operator=(const courier&) = delete;

  /// Requires that the host has waited for the step before.
  void begin_step(const step_info& info) {
    if (count_ > 0) {
      finished_before_ += count_;
      last_ = posted_[count_ - 1];
    }
    info_ = info;
    count_ = 0;
    if (!is_single_rank()) __atomic_store_n(progress(), 0, core::memory_order::relaxed);
  }
  /// Enqueues the exchange of one bucket, behind the work launched on `s` so far. Requires that its
  /// range is not accessed before finish().
  void post(const posted_bucket& b, stream s) {
    const core::trace_range range("enqueue exchange", b.view.layout->index,
                                  core::trace_track::exchange);
    if (is_single_rank()) {
      reducer_.enqueue(b.view, b.info, s);
      return mixed_(b.view, s);
    }
    expects(2 * count_ + 2 < numbers_.size(), "courier: more buckets than were announced");
    posted_.resize(std::max(posted_.size(), count_ + 1));
    posted_[count_++] = b;
    device_.await(stream_, device_.record(s));
    mark(2 * count_ - 1);
    const auto context = [&] { return concat(describe(b), "; ", last_finished()); };
    const auto ops = [this] { return completed(); };
    const comm::error_context scope(context, ops);
    reducer_.enqueue(b.view, b.info, stream_);
    mixed_(b.view, stream_);
    mark(2 * count_);
  }
  /// As the other courier's.
  void follow_by(const mixed_callback<Real, D>& f) { mixed_ = f; }
  void wait_for(std::size_t) {}
  /// Replaces numbers by their sums over ranks, as work of `s`; in the order of what is posted, on
  /// the same communicator, so that no two ranks launch collectives in different orders.
  void sum(span_on<double, D> x, stream s) {
    sums_ = true;
    reducer_.comm.enqueue_sum(x, s);
  }
  /// A graph that has captured the posts of a step is replayed.
  void replayed() {
    count_ = posted_.size();
    for (posted_bucket& b : posted_) b.info = info_;
  }

  /// What is launched on `s` from now on runs when every posted bucket is mixed.
  void finish(stream s) {
    if (count_ > 0) device_.await(s, device_.record(stream_));
  }
  /// Blocks the host until the work before `e` is complete; throws what an exchange has met.
  void wait(const typename D::event& e) {
    const pending_exchange pending{*this, e};
    const auto context = [this] {
      const std::size_t k = progress_now() / 2;
      return concat(k < count_ ? describe(posted_[k]) + "; " : "", last_finished());
    };
    const auto ops = [this] { return completed(); };
    const comm::error_context scope(context, ops);
    reducer_.comm.await_enqueued(pending);
  }
  [[nodiscard]] const auto& comm() const { return reducer_.comm; }
  /// Whether there is anything that wait() watches.
  [[nodiscard]] bool has_posted() const { return count_ > 0; }
  [[nodiscard]] static constexpr bool is_threaded() { return false; }

  /// "last finished: step 12, ..."
  [[nodiscard, gnu::cold]] std::string last_finished() const {
    const posted_bucket* const last = last_bucket();
    return "last finished: " + (last == nullptr ? "nothing" : describe(*last));
  }
  /// As the other courier's.
  [[nodiscard, gnu::cold]] std::vector<comm::completed_op> completed() const {
    std::vector<comm::completed_op> ops;
    const posted_bucket* const last = last_bucket();
    if (last == nullptr || R::offers != agreement::exact) return ops;
    const auto count = static_cast<std::int64_t>(finished_before_ + finished());
    for (int rank = 0; rank < reducer_.comm.size(); ++rank)
      ops.push_back({count, describe(*last), {comm::world_rank(reducer_.comm, rank)}});
    return ops;
  }

 private:
  struct pending_exchange {
    const courier& of;
    const typename D::event& e;

    [[nodiscard]] bool is_complete() const { return of.device_.is_complete(e); }
    /// The number of the bucket that the device exchanges, from 1; 0 for none. Where sum() is used
    /// a bucket's exchange includes what precedes it: sums have no marks.
    [[nodiscard]] std::uint64_t current() const {
      const std::uint64_t now = of.progress_now();
      const bool exchanges = now % 2 == 1 || (of.sums_ && now / 2 < of.count_);
      return exchanges ? now / 2 + 1 : 0;
    }
  };

  [[nodiscard]] bool is_single_rank() const { return reducer_.comm.size() == 1; }
  // The device writes it meanwhile.
  [[nodiscard]] std::uint64_t* progress() const { return begun_.span().data(); }
  /// 2k where k buckets are finished, 2k + 1 where the next one has begun.
  [[nodiscard]] std::uint64_t progress_now() const {
    return is_single_rank() ? 2 * count_ : __atomic_load_n(progress(), core::memory_order::acquire);
  }
  [[nodiscard]] std::size_t finished() const {
    return std::min<std::size_t>(progress_now() / 2, count_);
  }
  [[nodiscard]] const posted_bucket* last_bucket() const {
    if (finished() > 0) return &posted_[finished() - 1];
    return finished_before_ > 0 ? &last_ : nullptr;
  }
  void mark(std::size_t number) {
    device_.copy(begun_.span().data(), numbers_.span().data + number, sizeof(std::uint64_t),
                 stream_);
  }

  const R& reducer_;
  mixed_callback<Real, D> mixed_;
  D device_;
  stream stream_{};
  buffer<std::uint64_t, D> numbers_;        // 0, 1, 2, ..., the marks' source
  device::pinned<std::uint64_t, D> begun_;  // the mark that the device made last
  std::vector<posted_bucket> posted_;       // of the step that posted most
  std::size_t count_ = 0;                   // of them, of this step
  step_info info_;
  posted_bucket last_{};             // of the step before
  std::size_t finished_before_ = 0;  // buckets of all steps before
  bool sums_ = false;                // whether any step has called sum()
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
