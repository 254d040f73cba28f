// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The training step, which composes a model, an optimizer, a schedule and a reducer.
//
//   for each micro-batch:  forward -> backward, which adds to the gradients
//   during the last one:   segments ready -> bucket complete -> propose -> mix (on the courier)
//   then:                  all buckets mixed -> finish_reduction -> one accept -> pack_parameters
//
// Gradient averaging, gossip, Local SGD and a parameter server differ only in `propose` and `mix`.
#pragma once

#include <string_view>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/reducer_check.hpp>
#include <cordee/core/trace.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/optim/optimizer_check.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/checks/pairing.hpp>
#include <cordee/train/checks/same_trainers.hpp>
#include <cordee/train/checks/stability_check.hpp>
#include <cordee/train/run_operations.hpp>
#include <cordee/train/step/bucket_exchange.hpp>
#include <cordee/train/step/frozen_layers.hpp>
#include <cordee/train/step/gradient_scaler.hpp>
#include <cordee/train/step/graph_cache.hpp>
#include <cordee/train/step/host_step.hpp>
#include <cordee/train/step/lent_gradients.hpp>
#include <cordee/train/step/loader_position.hpp>
#include <cordee/train/step/observe.hpp>
#include <cordee/train/step/planes.hpp>
#include <cordee/train/step/readback.hpp>
#include <cordee/train/step/run_state.hpp>
#include <cordee/train/step/skip_limits.hpp>
#include <cordee/train/step/step.hpp>
#include <cordee/train/step/trust_ratio_quantiles.hpp>

namespace cordee::inline CORDEE_ABI {

/// Trains a model, which must outlive it, with an optimizer, a schedule and a reducer, and owns the
/// arena. Construction is collective: rank 0's weights are copied to all ranks. See
/// run_operations.hpp.
template <Model M, class O, class S, class R>
class trainer : public detail::train::run_operations<trainer<M, O, S, R>> {
 public:
  using model_type = M;                        ///< The model.
  using precision = typename M::precision;     ///< The model's precision.
  using Real = typename precision::master;     ///< Type of master weights, gradients and slots.
  using device = typename M::device;           ///< Where the model computes.
  using stream = typename device::stream;      ///< A queue of the device's work.
  using batch_type = detail::nn::batch_of<M>;  ///< A micro-batch of the model.
  using span = span_on<Real, device>;          ///< Numbers in device memory.
  /// Whether accept() gets the same gradient on every rank, the exact mean.
  static constexpr bool gradient_is_exact = O::needs == agreement::exact;
  /// Whether ranks may hold different weights: the optimizer or the reducer is not exact.
  static constexpr bool weights_differ = !gradient_is_exact || R::offers != agreement::exact;
  static_assert(detail::train::require_compatible<O, R>::holds);
  static_assert(detail::optim::has_optimizer_members<O, Real, device>() &&
                    OptimizerOn<O, Real, device>,
                "the optimizer does not model OptimizerOn");
  static_assert(detail::comm::has_reducer_members<R, Real, device>());
  static_assert(detail::schedule::has_schedule_members<S>());

  /// Makes the arena, and initializes the weights. @throws usage_error for an option or
  /// hyper-parameter out of its range; error if ranks have other settings, or if momentum diverges
  /// on the topology. An exception on one rank ends the run on the others.
  [[gnu::cold]] trainer(M& model, O optimizer, S schedule, R reducer,
                        trainer_options options = {}) try
      : model_(model),
        optimizer_(optimizer),
        schedule_(schedule),
        reducer_(reducer),
        options_(detail::train::options_over<M>(reducer, options)),
        device_(model.get_device()),
        stream_(device_.make_stream()),
        planes_(device_, model.segments(), options_.freeze, detail::train::frozen_gradients_of<M>,
                reducer_),
        packed_parameters_(model.make_packed_parameters()),
        readback_(device_),
        gradient_scaler_(device_, options_.loss_scaling, planes_.status(), state_.scale, stream_),
        graph_cache_(device_, options_),
        exchange_(model_, optimizer_, reducer_, planes_, gradient_scaler_, options_) {
    detail::optim::check_optimizer(optimizer_, planes_.trainables());
    detail::train::check_model(model_);
    if constexpr (shards) detail::train::check_sharded<M>(reducer_, options_);
    detail::train::freeze_layers(model_, options_.freeze);
    detail::train::expect_same_stages(optimizer_, reducer_);
    if (options_.check_stability) detail::train::expect_stable(optimizer_, reducer_);
    detail::train::expect_same_trainers(model_, optimizer_, schedule_, reducer_, options_,
                                        segments(), buckets());
    model_.initialize(weights(), options_.seed);
    adopt_weights();
  } catch (const std::exception& failure) {  // is thrown on
    detail::train::abort_unless_shared(reducer.comm, failure);
  }

  using detail::train::run_operations<trainer>::step;
  /// Makes one update from this rank's micro-batches. `epoch` is the position in the schedule;
  /// meanwhile() runs on the host while the device computes or ranks exchange, possibly before the
  /// weights change. Collective; if one rank throws, all do, and weights and slots may then be
  /// those of half a step.
  template <std::invocable F = detail::train::no_work>
  detail::train::step_outcome step(std::span<const batch_type> micro, double epoch,
                                   const F& meanwhile = {}) {
    return abort_peers_on_throw([&] { return take_step(micro, epoch, meanwhile); });
  }

  /// Runs f(); if it throws, aborts the peers with the reason and rethrows.
  template <class F>
  auto abort_peers_on_throw(const F& f) {
    return exchange_.abort_peers_on_throw(state_.progress.step, f);
  }

  /// Broadcasts rank 0's weights; optimizer state is unchanged. Collective.
  void adopt_weights() {
    detail::comm::broadcast(reducer_.comm, weights(), stream_);
    if constexpr (requires { model_.constant_bytes(); })  // of a framework's module
      for (auto x : model_.constant_bytes()) detail::comm::broadcast(reducer_.comm, x, stream_);
    exchange_.settled(stream_).initialize(optimizer_, reducer_, buckets(), stream_);
    if constexpr (shards) exchange_.shard().initialize(optimizer_, stream_);
    detail::nn::pack_restored(model_, weights(), packed_parameters_, {}, stream_);
  }

  /// State that changes from step to step besides the planes. Collective: no rank may be in a step.
  [[nodiscard]] detail::train::run_state state() {
    if constexpr (detail::nn::HasModelState<M>) state_.model = model_.state(packed_parameters());
    return detail::train::collect_state<Real>(state_, schedule_, reducer_, exchange_, stream_);
  }
  /// Continues from `state`, with planes restored before; the next fit seeks its loader.
  /// Collective.
  void restore(const detail::train::run_state& state) {
    detail::train::restore_policies<Real>(state, schedule_, reducer_, exchange_, stream_);
    state_ = {state.progress, state.scale, detail::train::to_resume(state.fit)};
    gradient_scaler_.restore(device_, stream_);
    if constexpr (shards) exchange_.shard().adopt_weights(stream_);
    detail::nn::pack_restored(model_, weights(), packed_parameters_, state.model, stream_);
  }

  /// The model, whose members may change between steps.
  [[nodiscard]] M& model() { return model_; }
  /// The trainer's copy; for `on_host`, of the optimizer inside.
  [[nodiscard]] const auto& optimizer() const { return detail::optim::placed(optimizer_); }
  /// The trainer's copy of the schedule, which observations change.
  [[nodiscard]] S& schedule() { return schedule_; }
  [[nodiscard]] const S& schedule() const { return schedule_; }     ///< The trainer's copy.
  [[nodiscard]] const R& reducer() const { return reducer_; }       ///< The trainer's copy.
  [[nodiscard]] const auto& comm() const { return reducer_.comm; }  ///< The reducer's communicator.
  /// The options in use: the trainer may have turned `overlap` off.
  [[nodiscard]] const trainer_options& options() const { return options_; }
  /// The weights in the form that kernels read.
  [[nodiscard]] auto& packed_parameters() { return planes_.resident(packed_parameters_); }
  [[nodiscard]] stream compute() const { return stream_; }  ///< The stream of the steps' work.
  /// Ranges of the arena that are exchanged at once, in the order in which they become ready.
  [[nodiscard]] auto buckets() const { return exchange_.buckets(); }
  /// All segments: trainable ones first, then the running statistics.
  [[nodiscard]] std::span<const segment> segments() const { return planes_.table(); }
  /// Number of updates so far, including skipped ones.
  [[nodiscard]] std::int64_t steps_taken() const { return state_.progress.step; }
  /// State of fit between steps.
  [[nodiscard]] detail::train::fit_state& fit_state() { return state_.fit; }
  /// Memory of this rank's planes; with `on_host`, the device's for gradients (host() has the
  /// rest).
  [[nodiscard]] std::size_t arena_bytes() const { return exchange_.arena_bytes(); }
  /// Device memory that this rank allocates, for micro-batches of so many samples.
  [[nodiscard]] detail::train::memory_plan plan_memory(int samples) const {
    return detail::train::plan_memory(model_, packed_parameters_, planes_, exchange_, samples);
  }
  /// How kernels are launched, and why; for logs.
  [[nodiscard]] std::string_view describe_launches() const { return graph_cache_.describe(model_); }
  /// Whether steps test the gradient for NaN and infinity.
  [[nodiscard]] bool checks_gradient() const { return always_checks || options_.check_finite; }

  /// Master weights, running statistics at the tail. Writes take effect at `adopt_weights`.
  [[nodiscard]] span weights() { return planes_.weights(); }
  /// Gradients as the last step left them. @throws usage_error if frozen layers have none.
  [[nodiscard]] span grads() {
    if constexpr (lends) model_.gradient_lender().return_gradients();
    return planes_.grads();
  }
  /// Gradients of trained layers.
  [[nodiscard]] auto held_grads() {
    if constexpr (lends) model_.gradient_lender().return_gradients();
    return planes_.held_grads();
  }
  /// Weights of one segment, such as "layer1.0.conv1.weight". @throws usage_error for an unknown
  /// name.
  [[nodiscard]] span weights(std::string_view name) { return planes_.span_of(weights(), name); }
  /// Gradient of one segment. @throws usage_error for an unknown name, or one without gradient.
  [[nodiscard]] span grads(std::string_view name) { return planes_.span_of(held_grads(), name); }
  /// Slot k of the optimizer. @throws usage_error if frozen layers have none.
  [[nodiscard]] span slot(int k) { return exchange_.settled(stream_).slot(k); }
  /// Slot k for trained layers; from k = O::slots on, those of the reducer.
  [[nodiscard]] auto held_slot(int k) { return exchange_.settled(stream_).held_slot(k); }
  /// Slot k of the reducer. @throws usage_error if frozen layers have none.
  [[nodiscard]] span reducer_slot(int k) { return exchange_.settled(stream_).reducer_slot(k); }
  /// With `sharded`: gathers the trained layers' numbers of slot k from all ranks into a whole
  /// plane. Collective.
  void gather_slot(int k, span plane)
    requires detail::comm::ShardsUpdate<R>
  {
    exchange_.shard().gather_slot(k, plane, stream_);
  }
  /// With `sharded`: what this rank holds.
  [[nodiscard]] auto& shard()
    requires detail::comm::ShardsUpdate<R>
  {
    return exchange_.shard();
  }
  /// With `on_host`: what the host holds and copies.
  [[nodiscard]] const auto& host() const
    requires detail::optim::UpdatesOnHost<O>
  {
    return exchange_.host();
  }
  /// Running statistics, the tail of the weights.
  [[nodiscard]] span statistics() { return planes_.statistics(); }
  /// Calls f(segment, |g|, ratio) for each trained tensor, as of the last update: |g| is the norm
  /// of the gradient that the optimizer got, behind `clip`, on this rank; NaN if the gradient is
  /// not tested. `ratio`, a std::optional<double>, is the trust ratio; empty where the tensor does
  /// not adapt. Computes no norm, since the step has; blocks the host.
  void for_gradient_norms(const auto& f) {
    detail::train::for_gradient_norms(optimizer_, planes_, out_.info, checks_gradient(), stream_,
                                      f);
  }

 private:
  template <class Run>
  friend class swapped_trainer;
  static constexpr bool shards = detail::comm::ShardsUpdate<R>;
  static constexpr bool on_host = detail::optim::UpdatesOnHost<O>;
  static constexpr bool exact = gradient_is_exact, mixes = O::needs == agreement::mixing;
  static constexpr bool norms_all = detail::optim::norms_of<O> == norms_needed::before_accept;
  static constexpr bool lends = detail::train::may_use_lent_gradients<M, O, R>;
  static constexpr bool always_checks = !exact || precision::scales_loss || norms_all;
  using graph_section = detail::train::graph_section;

  [[gnu::cold]] detail::train::step_outcome take_step(std::span<const batch_type> micro,
                                                      double epoch, const auto& meanwhile) {
    begin_step(epoch, micro);
    const bool joined = !micro.empty() && graph_cache_.joins(exchange_.blocks_host());
    for (std::size_t i = 0; i < micro.size(); ++i) {
      const bool last = i + 1 == micro.size();
      forward_backward(micro[i], i == 0, last, last && joined);
      readback_.copy_metrics(model_, stream_);
    }
    if (micro.empty()) exchange_.all_ready(stream_);
    exchange_.expect_all_ready();
    if constexpr (O::needs == agreement::loose) {  // by its own gradient a rank skips the step
      gradient_scaler_.update(stream_);
      copy_status();
      meanwhile();
      read_back();
      exchange_.post_rest(out_.applied, stream_);
      exchange_.finish(stream_);
      graph_cache_.run(graph_section::accept, model_, {}, stream_, [this] { accept(); });
      exchange_.wait_behind(stream_);
    } else if constexpr (on_host) {
      detail::train::finish_on_host(model_, packed_parameters_, exchange_, planes_,
                                    gradient_scaler_, readback_, out_, checks_gradient(), stream_,
                                    meanwhile);
    } else {
      if (!joined) exchange_.post_rest(out_.applied, stream_);
      if (exchange_.blocks_host()) meanwhile();  // during the exchange
      if (joined) {
        copy_status();
      } else {
        exchange_.finish(stream_);
        graph_cache_.run(graph_section::finish_reduction, model_, {}, stream_,
                         [this] { finish_reduction(); });
        copy_status();
        graph_cache_.run(graph_section::accept, model_, {}, stream_, [this] { accept(); });
      }
      if (!exchange_.blocks_host()) meanwhile();
      read_back();
    }
    end_step();
    return out_;
  }

  [[gnu::cold, gnu::noinline]] void begin_step(double epoch, std::span<const batch_type> micro) {
    detail::train::average_frozen_statistics(model_, reducer_.comm, statistics(),
                                             state_.progress.epoch, epoch, stream_);
    out_ = {};
    out_.info = state_.progress.at(epoch, detail::schedule::learning_rate_of(schedule_, epoch));
    out_.loss_scale = gradient_scaler_.scale();
    graph_cache_.begin_step(micro.size());
    exchange_.begin_step(out_.info, micro);
    readback_.begin(micro.size());
    if constexpr (lends) {
      lent_ = micro.size() == 1 && reducer_.comm.size() == 1 && options_.freeze.empty();
      model_.gradient_lender().lend_gradients(lent_);
    }
    planes_.begin_step(out_.info, checks_gradient(), stream_);
    if (micro.empty() || !detail::train::overwrites<M>(micro.front())) planes_.clear_grads(stream_);
  }

  /// One micro-batch, whose gradients are added. Segments become ready in the last one's backward;
  /// where nothing of the step needs the host in between, the rest of it follows (`joined`).
  [[gnu::noinline]] void forward_backward(const batch_type& micro, bool first, bool last,
                                          bool joined) {
    batch_type b = micro;
    b.loss_scale = gradient_scaler_.scale();
    b.epoch = out_.info.epoch;
    b.device_loss_scale = gradient_scaler_.device_scale();
    b.seed = options_.seed;
    b.info = planes_.info();
    if constexpr (requires { b.step; }) b.step = out_.info.step;
    const bool replaces = first && detail::train::overwrites<M>(micro);
    const auto mode = replaces ? write_mode::overwrite : write_mode::add;
    const auto pass = [&] {
      exchange_.run_micro_batch(packed_parameters_, b, mode, first, last, stream_);
      if (!joined) return;
      exchange_.post_rest(out_.applied, stream_);
      exchange_.finish(stream_);
      if constexpr (!on_host) finish_reduction(), accept();
    };
    const auto section = joined ? graph_section::step
                         : last ? graph_section::last_pass
                                : graph_section::pass;
    if (graph_cache_.run(section, model_, b, stream_, pass, replaces) && last)
      exchange_.replayed(joined);
  }

  // Exact optimizers test the mean, all ranks alike; others have tested their gradient by bucket.
  [[gnu::cold]] void finish_reduction() {
    if constexpr (shards) exchange_.shard().collect(stream_);
    if (exact && checks_gradient()) {
      if constexpr (shards)
        exchange_.shard().compute_norms(norms_all, stream_);
      else if (!detail::train::compute_lent_norms<lends>(lent_, model_, planes_, stream_))
        planes_.compute_norms(planes_.trainables(), 0, norms_all, stream_);
      planes_.record_norms(planes_.trainables(), 0, true, stream_);
    }
    if (checks_gradient()) gradient_scaler_.update(stream_);
  }

  // With an exact mean that is not finite nothing changes; a GPU's kernels test for it themselves.
  [[gnu::cold]] void accept() {
    const detail::core::trace_range range("update");
    const auto optimizer = [&](const auto& v, auto s) {
      if constexpr (lends)
        if (lent_)
          return detail::train::for_lent(model_, planes_,
                                         [&](const auto& one) { exchange_.accept(one, s); });
      exchange_.accept(v, s);
    };
    planes_.undo_if_nonfinite(exact, stream_);
    if constexpr (shards)
      exchange_.accept_shard(planes_.read_status(stream_).nonfinite_norms == 0, stream_);
    else if constexpr (exact)
      planes_.unless_nonfinite(stream_, optimizer);
    else
      optimizer(planes_.view_of(planes_.trainables(), 0, out_.applied), stream_);
    model_.pack_parameters(weights(), packed_parameters_, stream_);
  }

  void copy_status() {  // and the rest of what read_back() waits for
    if (checks_gradient()) readback_.copy_status(planes_, stream_);
    detail::train::copy_observations(model_, stream_);
    readback_.mark(stream_);
  }

  // What the step's work up to copy_status() has written. Blocks.
  [[gnu::cold, gnu::noinline]] void read_back() {
    exchange_.wait(readback_);
    out_.train = readback_.metrics_of(model_);
    if (!checks_gradient()) return;
    detail::train::enter_status(out_, readback_.status(), mixes);
    gradient_scaler_.set_host_scale(readback_.status());
  }

  [[gnu::cold, gnu::noinline]] void end_step() {
    out_.exposed_exchange = exchange_.exposed();
    planes_.residence().end_step(), state_.progress.advance(out_, exchange_.posted());
    detail::train::update_ranges(model_, reducer_.comm, weights(), out_.info, out_.finite(),
                                 stream_);
    detail::train::expect_usable_gradients<precision::scales_loss>(state_.progress, options_, out_,
                                                                   planes_, stream_);
  }

  M& model_;
  O optimizer_;
  S schedule_;
  R reducer_;
  trainer_options options_;
  device device_;
  stream stream_;
  detail::train::planes<Real, device, O, R> planes_;
  typename M::packed_parameters packed_parameters_;
  detail::train::readback<M> readback_;
  detail::train::run_state state_;
  detail::train::gradient_scaler<precision, device> gradient_scaler_;
  detail::train::step_outcome out_;  // of this step
  bool lent_ = false;                // its gradients may stay where the model has them
  detail::train::graph_cache<M, O, R> graph_cache_;
  detail::train::bucket_exchange<M, O, R> exchange_;  // last: its thread is joined first
};

}  // namespace cordee::inline CORDEE_ABI
