// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The buckets of a step on their way from backward to the reducer.
//
//   segments ready -> bucket complete -> unscaled -> tested (check_local_gradient)
//                  -> propose -> mix
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/reducer_check.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/trace.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/nn/parameter_packing.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/step/courier.hpp>
#include <cordee/train/step/delayed_exchange.hpp>
#include <cordee/train/step/enqueued_courier.hpp>
#include <cordee/train/step/gradient_scaler.hpp>
#include <cordee/train/step/host_update.hpp>
#include <cordee/train/step/momentum_exchange.hpp>
#include <cordee/train/step/planes.hpp>
#include <cordee/train/step/preconditioner.hpp>
#include <cordee/train/step/shard.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

template <class M>
concept HasSharedStatistics = requires(M m) { m.share_statistics({}); };

/// Buckets of model M, optimizer O and reducer R. Arguments of the constructor must outlive it.
template <class M, class O, class R>
class bucket_exchange {
 public:
  using device = typename M::device;
  using optimizer_type = O;
  using stream = typename device::stream;
  using Real = typename M::precision::master;
  using span = span_on<Real, device>;
  using planes_type = planes<Real, device, O, R>;
  using scaler_type = gradient_scaler<typename M::precision, device>;

  [[gnu::cold]] bucket_exchange(M& model, const O& optimizer, const R& reducer, planes_type& memory,
                                const scaler_type& scaler, const trainer_options& options)
      : model_(model),
        optimizer_(optimizer),
        planes_(memory),
        scaler_(scaler),
        posts_early_(detail::optim::is_eager<O> && options.overlap),
        measures_noise_(options.measure_gradient_noise),
        buckets_(buckets_of_run<M, R>(model, memory, optimizer, options)),
        scratch_(model.get_device(), comm::largest_scratch<Real>(reducer, buckets())),
        courier_(reducer, model.get_device(), buckets_.size()),
        preconditioner_(optimizer, courier_.comm(), memory.table(), memory.trainables()),
        shard_(model.get_device(), memory, reducer, buckets()),
        host_(model, memory, optimizer, buckets(), options, reducer.comm.size()) {
    if constexpr (on_host) host_.follow(courier_, this, slice_written);
    if constexpr (delays) courier_.delay_by(exchange_delay(optimizer));
    if (options.batch_norm_over != 1) share_statistics(options.batch_norm_over);
    expects(!measures_noise_ || (can_measure_noise && reducer.comm.size() > 1),
            "trainer: measure_gradient_noise compares the gradients of several ranks with their "
            "mean: use two ranks or more, and an optimizer that averages gradients");
    expects(!measures_noise_ || options.check_finite,
            "trainer: measure_gradient_noise uses the norm that check_finite computes: set both");
  }
  bucket_exchange(const bucket_exchange&) = delete;
  bucket_exchange& operator=(const bucket_exchange&) = delete;
  ~bucket_exchange() {
    if constexpr (HasSharedStatistics<M>)
      if (statistics_ranks_.size > 0) model_.share_statistics({});
  }

  [[nodiscard]] std::span<const bucket> buckets() const {
    return {buckets_.data(), buckets_.size()};
  }
  using courier_type = courier<R, Real, device, ExchangesOnStream<M, R>>;

  /// f(); if it throws, aborts the peers with the reason and rethrows. Errors of its exchanges name
  /// the number of `steps` at that time and the bucket that was finished last.
  template <class F>
  auto abort_peers_on_throw(const std::int64_t& steps, const F& f) const {
    if constexpr (comm::single_rank<typename R::communicator_type>) {
      return f();
    } else {
      const auto context = [&] {
        return concat("trainer after ", steps, " steps; ", courier_.last_finished());
      };
      const auto completed = [this] { return courier_.completed(); };
      const comm::error_context scope(context, completed);
      return comm::abort_peers_on_throw(courier_.comm(), f);
    }
  }
  void add_memory(memory_plan& plan) const {
    plan.add("scratch of the reducer", scratch_.size());
    if constexpr (on_host) plan.add("gradients", host_.device_bytes());
    if constexpr (comm::ShardsUpdate<R>) {
      plan.add("optimizer slots", shard_.slot_bytes());
      plan.add("this rank's weights", shard_.bytes() - shard_.slot_bytes());
    }
  }
  /// Whether the host is blocked until the buckets are mixed.
  [[nodiscard]] bool blocks_host() const { return courier_.is_threaded(); }
  /// Whether the step has posted anything.
  [[nodiscard]] bool posted() const { return posted_; }

  void begin_step(const step_info& info, std::span<const nn::batch_of<M>> micro) {
    if constexpr (!device::host_memory && HasSharedStatistics<M>)
      model_.expect_several_values(micro, info.epoch, planes_.trainables());
    info_ = info;
    next_ = 0;
    posted_ = false;
    mode_ = write_mode::add;
    courier_.begin_step(info);
  }
  /// The forward and the backward pass of one micro-batch; segments become ready in the last one's.
  void run_micro_batch(typename M::packed_parameters& packed, const nn::batch_of<M>& micro,
                       write_mode mode, bool first, bool last, stream s) {
    if constexpr (on_host) host_.begin_pass(first, last, s);
    {
      const core::trace_range range("forward");
      model_.forward(packed, planes_.weights(), micro, phase::train, s);
    }
    const core::trace_range range("backward");
    mode_ = mode;
    const auto ready = observed(preconditioner_, micro, info_, [&](std::size_t k) {
      if (last)
        segments_ready(k, s);
      else if constexpr (on_host)
        host_.parts_ready(planes_.table()[k].offset, s);
    });
    if constexpr (on_host) {
      model_.backward(packed, host_.gradients(), mode, ready, s);
    } else if constexpr (nn::HasPackedGradients<M>) {
      model_.backward_packed(packed, gradients_for<M>(planes_), mode, ready, s);
      if (last) return;
      const std::size_t n = planes_.trainables().size();
      if (n == core::count_trainable(model_.segments()))
        return model_.unpack_gradients(gradients_for<M>(planes_), 0, n, mode, nullptr, s);
      for (const bucket& x : buckets()) unpack(x, nullptr, s);  // without what is frozen
    } else {
      model_.backward(packed, gradients_for<M>(planes_), mode, ready, s);
    }
  }
  /// A step without samples: the gradient is zero.
  void all_ready(stream s) {
    if constexpr (on_host) host_.begin_pass(true, true, s);
    complete_buckets(planes_.table()[0].offset, s, false);
  }
  /// Backward has written the gradients of segment k and of all later segments of the table:
  /// buckets that begin at k or later are complete.
  /// Out of line: every layer calls it.
  [[gnu::noinline]] void segments_ready(std::size_t k, stream s) {
    complete_buckets(planes_.table()[k].offset, s);
  }
  void complete_buckets(std::size_t offset, stream s, bool scaled = true) {
    for (; next_ < buckets_.size() && offset <= buckets_[next_].offset; ++next_) {
      const bucket& b = buckets_[next_];
      if constexpr (on_host) host_.enter(next_), host_.complete(next_);
      if (scaled) finish_gradient(b, s);
      if (scaled && next_ == 0) planes_.template check_statistics<M>(gradient_of(b), s);
      if constexpr (checks_early) check_local_gradient(b, s);
      if constexpr (can_measure_noise)
        if (measures_noise_) measure_local_gradient(b, s);
      if (posts_early_) post(b, true, s);
    }
  }
  /// A replayed graph has done what segments_ready does, and post_rest if `rest_too`.
  void replayed(bool rest_too) {
    next_ = buckets_.size();
    posted_ = rest_too || posts_early_;
    if (posted_) courier_.replayed();
  }
  void expect_all_ready() const {
    expects(next_ == buckets_.size(), "trainer: backward ended before every segment was ready");
  }
  /// Posts the buckets that were not posted during backward.
  void post_rest(bool finite, stream s) {
    if (posts_early_) return;
    for (const bucket& b : buckets_) post(b, finite, s);
  }
  /// What is launched on `s` from now on runs when every bucket is mixed. Blocks the host until
  /// then, unless the exchange is work of a stream.
  void finish(stream s) {
    const core::trace_range range("wait for exchange");
    const double begin = comm::seconds_now(courier_.comm());
    courier_.finish(s);
    exposed_ = comm::seconds_now(courier_.comm()) - begin;
  }
  /// The planes, when no exchange is on its way to a later step. Blocks the host until then.
  [[nodiscard]] planes_type& settled(stream s) {
    if constexpr (delays) courier_.finish_delayed(s);
    return planes_;
  }
  /// The optimizer's step, of the preconditioned gradient where it has a preconditioner; then
  /// collective.
  template <class View, class Stream>
  void accept(const View& v, Stream s) {
    if constexpr (MakesStep<preconditioner_of<O, M, R>, O, View, Stream>) {
      preconditioner_.accept(optimizer_, v, info_, s);
    } else {
      if constexpr (HasPreconditioner<O>) preconditioner_.precondition(planes_.held_grads(), info_);
      optimizer_.accept(v, info_, s);
    }
  }
  [[nodiscard]] auto& preconditioner() { return preconditioner_; }
  /// The step on this rank's part, and all weights from the ranks, if it is `applied`. Collective.
  void accept_shard(bool applied, stream s) {
    if (applied) shard_.step(optimizer_, info_, s);
    if (!applied && !shard_.has_masters()) return;  // the weights are where they were
    const double begin = comm::seconds_now(courier_.comm());
    shard_.gather_weights(s);
    exposed_ += comm::seconds_now(courier_.comm()) - begin;
  }
  /// This rank's part of a sharded update.
  [[nodiscard]] auto& shard() { return shard_; }
  [[nodiscard]] const auto& shard() const { return shard_; }
  /// Bytes of the planes; of an update by the host the device's.
  [[nodiscard]] std::size_t arena_bytes() const {
    if constexpr (comm::ShardsUpdate<R>) return planes_.bytes() + shard_.bytes();
    if constexpr (on_host) return host_.device_bytes();
    return planes_.bytes();
  }
  /// The update by the host.
  [[nodiscard]] auto& host() { return host_; }
  [[nodiscard]] const auto& host() const { return host_; }
  /// Seconds of this step's finish(), where these are what the exchange took beyond backward: on a
  /// device the host would wait for backward too.
  [[nodiscard]] std::optional<double> exposed() const {
    constexpr bool is_virtual = comm::HasVirtualTime<typename R::communicator_type>;
    if ((device::host_memory || is_virtual) && blocks_host()) return exposed_;
    return std::nullopt;
  }
  /// Blocks the host until readback.marked() has passed, and watches the ranks meanwhile.
  template <class Readback>
  void wait(const Readback& readback) {
    if constexpr (enqueues)
      if (courier_.has_posted()) return courier_.wait(readback.marked());
    readback.wait();
  }
  /// Blocks the host until what was launched on `s` is complete, where nothing of this step waits
  /// for its exchange otherwise.
  void wait_behind(stream s) {
    if constexpr (enqueues)
      if (courier_.has_posted()) courier_.wait(model_.get_device().record(s));
  }

 private:
  static constexpr bool on_host = planes_type::on_host;
  static constexpr bool exact = O::needs == agreement::exact;
  static constexpr bool can_measure_noise = exact && !detail::optim::compresses_momentum<O>() &&
                                            !on_host &&
                                            !comm::single_rank<typename R::communicator_type>;
  static constexpr bool enqueues = ExchangesOnStream<M, R>;
  static constexpr bool delays = delays_exchange<O>() && !enqueues &&
                                 comm::has_concurrent_contexts<typename R::communicator_type>();
  static constexpr bool norms_early = detail::optim::norms_of<O> == norms_needed::before_propose;
  static constexpr bool checks_early = !exact || norms_early;

  static void slice_written(void* self, std::size_t k) {
    auto& own = *static_cast<bucket_exchange*>(self);
    if (own.next_ == k) own.complete_buckets(own.buckets_[k].offset, own.host_.compute());
  }
  // Batch norm's statistics are those of `over` ranks; their sums are the courier's where they are
  // work of a stream, whose sums are over all ranks.
  [[gnu::cold]] void share_statistics(int over) {
    const int rank = courier_.comm().rank(), ranks = courier_.comm().size();
    expects(over >= 0 && over <= ranks,
            "trainer: batch_norm_over is a number of ranks of this run, or 0 for all of them");
    if constexpr (HasSharedStatistics<M>) {
      if (ranks == 1) return;
      statistics_ranks_ = comm::range_of(rank, over == 0 ? ranks : over, ranks);
      ops::statistics_allreduce allreduce{.call = sum_on_host, .context = this};
      if constexpr (enqueues)
        if (statistics_ranks_.size == ranks) allreduce.enqueue = sum_on_stream;
      model_.share_statistics(allreduce);
    } else {
      throw usage_error("trainer: batch_norm_over requires a network");
    }
  }
  static void sum_on_host(void* exchange, std::span<double> sums) {
    const auto& own = *static_cast<bucket_exchange*>(exchange);
    comm::allreduce_host(own.courier_.comm(), own.statistics_ranks_, sums, reduce_op::sum);
  }
  static void sum_on_stream(void* exchange, double* sums, std::size_t n, const void* s)
    requires enqueues
  {
    static_cast<bucket_exchange*>(exchange)->courier_.sum({sums, n},
                                                          *static_cast<const stream*>(s));
  }

  void unpack(const bucket& b, const float* factor, stream s)
    requires nn::HasPackedGradients<M>
  {
    const std::span<const segment> table = model_.segments();
    std::size_t first = 0;
    while (table[first].offset < b.offset) ++first;
    model_.unpack_gradients(gradients_for<M>(planes_), first, b.segments.size(), mode_, factor, s);
  }

  [[nodiscard]] span gradient_of(const bucket& b) {
    if constexpr (on_host)
      return host_.slot(static_cast<std::size_t>(b.index));
    else
      return planes_.gradient_of(b);
  }
  // The gradient in the plane, without the loss scale.
  void finish_gradient(const bucket& b, stream s) {
    if constexpr (on_host)
      host_.rounds() ? void() : scaler_.unscale(gradient_of(b), s);
    else if constexpr (nn::HasPackedGradients<M>)
      unpack(b, scaler_.device_factor(), s);
    else
      scaler_.unscale(planes_.gradient_of(b), s);
  }

  // Norms of this rank's gradient in one bucket. Where ranks step on their own gradients it is
  // tested as well; exact optimizers test the mean, so that all ranks decide alike.
  void check_local_gradient(const bucket& b, stream s) {
    planes_.compute_norms(b.segments, b.first_segment, norms_early, s);
    if constexpr (exact) return;
    planes_.record_norms(b.segments, b.first_segment, false, s);
    if constexpr (O::needs == agreement::mixing)
      planes_.clear_if_nonfinite(planes_.gradient_of(b), s);
  }

  void measure_local_gradient(const bucket& b, stream s) {
    planes_.compute_norms(b.segments, b.first_segment, false, s);
    planes_.add_local_norms(b.segments, b.first_segment, s);
  }

  // Hands a bucket's proposal, if there is one, to the courier. Out of line: it has three callers.
  [[gnu::noinline]] void post(const bucket& b, bool finite, stream s) {
    auto view = planes_.view_of(b.segments, b.first_segment, finite);
    if constexpr (on_host) view.grads = gradient_of(b);
    const span proposal = detail::optim::proposal(optimizer_, view, info_, s);
    if (proposal.empty()) return;
    if constexpr (on_host)
      expects(proposal.data == view.grads.data,
              "on_host: the optimizer exchanges something else than gradients");
    posted_ = true;
    const auto mixed = proposed_bucket(optimizer_, info_, planes_, b, proposal, scratch_.span(), s);
    courier_.post({mixed, info_}, s);
  }

  M& model_;
  const O& optimizer_;
  planes_type& planes_;
  const scaler_type& scaler_;
  bool posts_early_, measures_noise_;
  core::pod_vector<bucket> buckets_;
  buffer<std::byte, device> scratch_;  // the reducer's; the courier mixes one bucket at a time
  step_info info_;
  std::size_t next_ = 0;  // the next bucket to become ready
  bool posted_ = false;
  comm::rank_range statistics_ranks_;  // that share batch norm's statistics, if any do
  write_mode mode_ = write_mode::add;  // of the last backward pass
  double exposed_ = 0;
  // Its thread is joined before what it uses is destroyed.
  courier_type courier_;
  [[no_unique_address]] preconditioner_of<O, M, R> preconditioner_;
  [[no_unique_address]] shard_of<planes_type, M, O, R> shard_;
  [[no_unique_address]] host_update_of<planes_type, M> host_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
