// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The synchronous training step, which composes a model, an optimizer, a schedule and a reducer.
//
//   for each micro-batch:  forward -> backward, which adds to the gradients
//   during the last one:   segments ready -> bucket complete -> propose -> mix (on the courier)
//   then:                  all buckets mixed -> finish_reduction (norms, test for NaN)
//                          -> one accept over the whole arena -> pack_parameters
//
// The order is the same for every precision, optimizer and reducer. Gradient averaging, gossip,
// Local SGD and a parameter server differ in what `propose` returns and in what `mix` does with it.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <cordee/comm/collectives.hpp>
#include <cordee/comm/reducer_check.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/courier.hpp>
#include <cordee/train/gradient_scaler.hpp>
#include <cordee/train/graph_cache.hpp>
#include <cordee/train/observe.hpp>
#include <cordee/train/pairing.hpp>
#include <cordee/train/planes.hpp>
#include <cordee/train/readback.hpp>
#include <cordee/train/run_operations.hpp>
#include <cordee/train/same_table.hpp>
#include <cordee/train/stability_check.hpp>
#include <cordee/train/step.hpp>

namespace cordee::inline CORDEE_ABI {

/// Trains a model with an optimizer, a schedule and a reducer. It owns the arena (weights,
/// gradients, optimizer and reducer state), not the model, which must outlive it. Construction is
/// collective: all ranks start from rank 0's initial weights. Its fit, evaluate, save and load are
/// in run_operations.hpp.
template <Model M, class O, Schedule S, class R>
class trainer : public detail::train::run_operations<trainer<M, O, S, R>> {
 public:
  using model_type = M;
  using precision = typename M::precision;
  using Real = typename precision::master;
  using device = typename M::device;
  using stream = typename device::stream;
  using span = span_on<Real, device>;
  /// Whether every rank's accept() gets the same gradient, the exact mean.
  static constexpr bool gradient_is_exact = O::needs == agreement::exact;
  /// Whether weights differ between ranks.
  static constexpr bool weights_differ = !gradient_is_exact || R::offers != agreement::exact;
  static_assert(detail::train::require_compatible<O, R>::holds);
  static_assert(detail::optim::has_optimizer_members<O, Real, device>() &&
                    OptimizerOn<O, Real, device>,
                "the optimizer does not model OptimizerOn");
  static_assert(detail::comm::reducer_check<R, Real, device>::holds);

  [[gnu::cold]] trainer(M& model, O optimizer, S schedule, R reducer, trainer_options options = {})
      : model_(model),
        optimizer_(optimizer),
        schedule_(schedule),
        reducer_(reducer),
        options_(options),
        device_(model.where()),
        stream_(device_.make_stream()),
        buckets_(detail::core::make_buckets(
            M::segments(), detail::comm::message_limit<R>(options.bucket_bytes) / sizeof(Real))),
        planes_(device_, M::segments()),
        packed_parameters_(model.make_packed_parameters()),
        scratch_(device_, detail::comm::largest_scratch<Real>(reducer_, buckets())),
        readback_(device_),
        gradient_scaler_(device_, options_.loss_scaling, planes_.status(), stream_),
        graph_cache_(device_, options_),
        courier_(reducer_, device_) {
    detail::optim::check_optimizer(optimizer_);
    detail::train::check_quantization(model_);
    if (options_.check_stability) detail::train::expect_stable(optimizer_, reducer_);
    detail::train::expect_same_table(reducer_.comm, segments(), buckets());
    model_.initialize(weights(), options_.seed);
    adopt_weights();
  }

  /// One update from this rank's micro-batches. `epoch` is the position in the schedule;
  /// meanwhile() runs on the host while the device computes. Collective; throws on every rank when
  /// one fails.
  template <std::invocable F = detail::train::no_work>
  step_outcome step(std::span<const batch<device>> micro, double epoch, const F& meanwhile = {}) {
    return abort_peers_on_throw([&] { return take_step(micro, epoch, meanwhile); });
  }

  /// f(); if it throws, aborts the peers with the reason and rethrows.
  template <class F>
  auto abort_peers_on_throw(const F& f) {
    const auto context = [this] {
      return concat("trainer after ", steps_taken(), " steps; ", courier_.last_finished());
    };
    const auto completed = [this] { return courier_.completed(); };
    const detail::comm::error_context scope(context, completed);
    return cordee::detail::comm::abort_peers_on_throw(reducer_.comm, f);
  }

  /// Broadcasts rank 0's weights; optimizer state stays as it is. Collective.
  void adopt_weights() {
    detail::comm::broadcast(reducer_.comm, weights(), stream_);
    planes_.initialize_reducer(reducer_, buckets(), stream_);
    model_.pack_parameters(weights(), packed_parameters_, stream_);
  }

  [[nodiscard]] M& model() { return model_; }
  [[nodiscard]] const O& optimizer() const { return optimizer_; }
  [[nodiscard]] S& schedule() { return schedule_; }
  [[nodiscard]] const S& schedule() const { return schedule_; }
  [[nodiscard]] const R& reducer() const { return reducer_; }
  [[nodiscard]] const auto& comm() const { return reducer_.comm; }
  [[nodiscard]] const trainer_options& options() const { return options_; }
  [[nodiscard]] typename M::packed_parameters& packed_parameters() { return packed_parameters_; }
  [[nodiscard]] stream compute() const { return stream_; }
  [[nodiscard]] auto buckets() const { return std::span(buckets_.data(), buckets_.size()); }
  [[nodiscard]] std::span<const segment> segments() const { return planes_.table(); }
  [[nodiscard]] std::int64_t steps_taken() const { return progress_.step; }
  [[nodiscard]] std::size_t arena_bytes() const { return planes_.bytes(); }
  /// How kernels are launched: one by one, or as captured graphs.
  [[nodiscard]] std::string_view describe_launches() const { return graph_cache_.describe(); }
  /// Whether a gradient with a NaN or an infinity is detected.
  [[nodiscard]] bool checks_gradient() const { return always_checks || options_.check_finite; }

  /// Master weights, running statistics at the tail. Writes take effect at `adopt_weights`.
  [[nodiscard]] span weights() { return planes_.weights(); }
  [[nodiscard]] span grads() { return planes_.grads(); }
  [[nodiscard]] span slot(int k) { return planes_.slot(k); }
  [[nodiscard]] span reducer_slot(int k) { return planes_.reducer_slot(k); }
  [[nodiscard]] span statistics() { return planes_.statistics(); }

 private:
  static constexpr bool exact = gradient_is_exact, mixes = O::needs == agreement::mixing;
  static constexpr bool checks_early = !exact || O::norms == norms_needed::before_propose;
  static constexpr bool always_checks =
      !exact || precision::scales_loss || O::norms == norms_needed::before_accept;
  using graph_section = detail::train::graph_section;
  using event = typename device::event;

  template <class F>
  step_outcome take_step(std::span<const batch<device>> micro, double epoch, const F& meanwhile) {
    begin_step(epoch);
    for (std::size_t i = 0; i < micro.size(); ++i)
      forward_backward(micro[i], i + 1 == micro.size());
    if (micro.empty()) segments_ready(0);  // no samples: this rank's gradient is zero
    expects(next_bucket_ == buckets_.size(),
            "trainer: backward ended before every segment was ready");
    // Exact optimizers test the reduced mean in finish_reduction(), so all ranks decide alike; the
    // others have tested their own gradient, bucket by bucket, in check_local_gradient().
    if constexpr (!exact) gradient_scaler_.update(stream_);
    if constexpr (O::needs == agreement::loose) read_back(device_.record(stream_));
    if (!posts_early())
      for (const bucket& b : buckets_) post_bucket(b, out_.applied);
    courier_.finish();  // blocks until every bucket is mixed
    graph_cache_.run(graph_section::finish_reduction, model_, {}, stream_,
                     [this] { finish_reduction(); });
    const event reduced = device_.record(stream_);
    graph_cache_.run(graph_section::accept, model_, {}, stream_, [this] { accept(); });
    meanwhile();
    if constexpr (O::needs != agreement::loose) read_back(reduced);
    end_step();
    return out_;
  }

  void begin_step(double epoch) {
    detail::train::average_frozen_statistics(model_, reducer_.comm, statistics(), out_.info.epoch,
                                             epoch, stream_);
    out_ = {.info = progress_.at(epoch, detail::schedule::learning_rate_of(schedule_, epoch)),
            .loss_scale = gradient_scaler_.scale()};
    next_bucket_ = 0;
    posted_ = false;
    planes_.begin_step(out_.info, stream_);
    planes_.clear(grads(), stream_);
  }

  // One micro-batch, whose gradients are added. Segments become ready in the last one's backward.
  void forward_backward(const batch<device>& micro, bool last) {
    batch<device> b = micro.with_loss_scale(gradient_scaler_.scale(), out_.info.epoch);
    b.device_loss_scale = gradient_scaler_.device_scale();
    event after_forward;
    const auto pass = [&] {
      model_.forward(packed_parameters_, weights(), b, phase::train, stream_);
      after_forward = device_.record(stream_);
      const auto ready = [&](std::size_t k) { last ? segments_ready(k) : void(); };
      model_.backward(packed_parameters_, grads(), write_mode::add, ready, stream_);
    };
    if (graph_cache_.run(last ? graph_section::last_pass : graph_section::pass, model_, b, stream_,
                         pass)) {  // a replayed pass calls nothing on the host
      after_forward = device_.record(stream_);
      if (last) next_bucket_ = buckets_.size();
      posted_ = last && posts_early();
    }
    out_.train += readback_.metrics_at(after_forward, model_);  // during backward
  }

  // Backward has written the gradients of segment k and of all later segments of the table: buckets
  // that begin at k or later are complete.
  void segments_ready(std::size_t k) {
    for (; next_bucket_ < buckets_.size() && k <= buckets_[next_bucket_].first_segment;
         ++next_bucket_) {
      const bucket& b = buckets_[next_bucket_];
      gradient_scaler_.unscale(grads().subspan(b.offset, b.size), stream_);
      if constexpr (checks_early) check_local_gradient(b);
      if (posts_early()) post_bucket(b, true);
    }
  }

  // Norms of this rank's gradient in one bucket. Where ranks step on their own gradients it is
  // tested as well; exact optimizers test the mean, so that all ranks decide alike.
  void check_local_gradient(const bucket& b) {
    planes_.compute_norms(b.segments, b.first_segment, O::norms == norms_needed::before_propose,
                          stream_);
    if constexpr (exact) return;
    planes_.record_norms(b.segments, b.first_segment, false, stream_);
    if constexpr (mixes) planes_.clear_if_nonfinite(grads().subspan(b.offset, b.size), stream_);
  }

  // Hands what the optimizer proposes for one bucket, if anything, to the courier.
  void post_bucket(const bucket& b, bool finite) {
    const span proposal = optimizer_.propose(planes_.view_of(b.segments, b.first_segment, finite),
                                             out_.info, stream_);
    if (proposal.empty()) return;
    posted_ = true;
    courier_.post({planes_.bucket_view_of(b, proposal, scratch_.span()), out_.info}, stream_);
  }

  // Norms of the exact mean, and its test for NaN and infinity.
  void finish_reduction() {
    if (!exact || !checks_gradient()) return;
    planes_.compute_norms(planes_.trainables(), 0, O::norms == norms_needed::before_accept,
                          stream_);
    planes_.record_norms(planes_.trainables(), 0, true, stream_);
    gradient_scaler_.update(stream_);
  }

  // With an exact mean that is not finite nothing changes; a GPU's kernels test for it themselves,
  // since the host has not read the status yet.
  void accept() {
    const auto optimizer = [&](const auto& v, auto s) { optimizer_.accept(v, out_.info, s); };
    planes_.undo_if_nonfinite(exact, stream_);
    if constexpr (exact)
      planes_.unless_nonfinite(stream_, optimizer);
    else
      optimizer(planes_.view_of(planes_.trainables(), 0, out_.applied), stream_);
    model_.pack_parameters(weights(), packed_parameters_, stream_);
  }

  // The step's status as of `tested`; the compute stream goes on.
  void read_back(const event& tested) {
    out_.squared_global_norm = std::nan("");
    if (!checks_gradient()) return;
    const detail::train::step_status status = readback_.status_at(tested, planes_);
    out_.squared_global_norm = status.squared_global_norm;
    out_.zeroed_buckets = mixes ? status.nonfinite_buckets : 0;
    out_.applied = mixes || status.nonfinite_buckets == 0;
    gradient_scaler_.set_host_scale(status);
  }

  void end_step() {
    progress_.advance(out_, posted_);
    detail::train::update_ranges(model_, reducer_.comm, weights(), out_.info, out_.finite(),
                                 readback_.on(), stream_);
    if (progress_.nonfinite_steps >= options_.max_nonfinite_steps)
      detail::train::throw_nonfinite(progress_.nonfinite_steps,
                                     planes_.first_nonfinite_segment(stream_).name, out_,
                                     precision::scales_loss);
  }

  [[nodiscard]] bool posts_early() const { return O::eager && options_.overlap; }

  M& model_;
  O optimizer_;
  S schedule_;
  R reducer_;
  trainer_options options_;
  device device_;
  stream stream_;
  std::vector<bucket> buckets_;
  detail::train::planes<Real, device, O, R> planes_;
  typename M::packed_parameters packed_parameters_;
  buffer<std::byte, device> scratch_;  // the reducer's; the courier mixes one bucket at a time
  detail::train::readback<device> readback_;
  detail::train::gradient_scaler<precision, device> gradient_scaler_;

  step_outcome out_;
  std::size_t next_bucket_ = 0;  // the next one to become ready
  bool posted_ = false;          // whether this step exchanges anything
  detail::train::progress progress_;
  detail::train::graph_cache<M, O, R> graph_cache_;
  // Last: its thread is joined before what it uses is destroyed.
  detail::train::courier<R, Real, device> courier_;
};

}  // namespace cordee::inline CORDEE_ABI
