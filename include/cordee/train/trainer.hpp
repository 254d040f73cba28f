// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The one file in which model, rule, schedule and reducer meet.
//
//   forward -> backward -> a bucket is ready -> propose -> mix (the courier, beside backward)
//   -> every bucket is back -> settle (flag, norms) -> one accept over the whole arena -> publish
//
// This order is the same for every precision, rule and reducer. Gradient averaging, gossip, Local
// SGD and a parameter server differ in what is proposed and in what `mix` does with it.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/courier.hpp>
#include <cordee/train/fit.hpp>
#include <cordee/train/observe.hpp>
#include <cordee/train/pairing.hpp>
#include <cordee/train/planes.hpp>
#include <cordee/train/replay.hpp>
#include <cordee/train/same_table.hpp>
#include <cordee/train/stable.hpp>
#include <cordee/train/step.hpp>

namespace cordee::inline CORDEE_ABI {

/// Binds a model to a rule, a schedule and a reducer; owns the arena, not the model, which must
/// outlive it. All ranks construct theirs together: rank 0's first weights are everybody's.
template <Model M, class O, Schedule S, class R>
class trainer {
 public:
  using model_type = M;
  using precision = typename M::precision;
  using Real = typename precision::master;
  using device = typename M::device;
  using stream = typename device::stream;
  using span = span_on<Real, device>;
  /// Whether the rule steps on the same gradient on every rank; whether weights differ.
  static constexpr bool gradient_is_exact = O::needs == agreement::exact;
  static constexpr bool weights_differ = !gradient_is_exact || R::offers != agreement::exact;
  static_assert(pairing<O, R>::holds);
  static_assert(OptimizerOn<O, Real, device>, "the optimizer does not model OptimizerOn");
  static_assert(ReducerOn<R, Real, device>, "the reducer does not model ReducerOn");

  [[gnu::cold]] trainer(M& model, O rule, S schedule, R reducer, trainer_options options = {})
      : model_(model),
        rule_(rule),
        schedule_(schedule),
        reducer_(reducer),
        options_(options),
        device_(model.where()),
        stream_(device_.open()),
        late_(device_.open()),
        buckets_(cut(M::segments(), message_limit<R>(options.bucket_bytes) / sizeof(Real))),
        planes_(device_, M::segments()),
        image_(model.make_image()),
        scratch_(device_, largest_scratch<Real>(reducer_, buckets())),
        play_(device_, options_),
        courier_(reducer_, device_) {
    check_rule(rule_);
    check_ranges(model_);
    if constexpr (scales) scale_ = planes_.begin_scaling(options_.loss_scaling, stream_);
    if (options_.check_stability) expect_stable(rule_, reducer_);
    expect_same_table(reducer_.link, segments(), buckets());
    model_.initialise(weights(), options_.seed);
    adopt_weights();
  }

  /// One update from this rank's micro-batches, at a place in the schedule counted in epochs;
  /// meanwhile() runs while the device works. Collective; an error on any rank ends it on all.
  template <std::invocable F = detail::nothing_else>
  step_outcome step(std::span<const batch<device>> micro, double epoch, const F& meanwhile = {}) {
    return together([&] { return take_step(micro, epoch, meanwhile); });
  }

  /// Trains until the loader stands at `epochs`, and tells the listeners (see record.hpp), among
  /// which a `held_out{data set}` is evaluated at the end of each epoch. Collective.
  template <Feed F, class... Listeners>
  run_summary fit(F& feed, double epochs, Listeners&&... listeners) {
    return together([&] { return detail::fit(*this, feed, epochs, listeners...); });
  }

  /// The score of the agreed model on a data set, each sample once. Collective.
  template <Dataset Data>
  score evaluate(const Data& dataset, const normalisation& norm, int batch_size = 250) {
    return together([&] { return cordee::evaluate(*this, dataset, norm, batch_size); });
  }

  /// Writes the agreed model's weights as safetensors with the names of its segments. Collective;
  /// rank 0 writes.
  void save(const std::string& path) {
    static_assert(
        requires { save_weights(*this, path); },
        "save: include <cordee/train/weights.hpp>, as the umbrella does");
    together([&] { save_weights(*this, path); });
  }

  /// Reads weights on rank 0 and shares them; refuses what does not fit, by name. Collective.
  void load(const std::string& path) {
    static_assert(
        requires { load_weights(*this, path); },
        "load: include <cordee/train/weights.hpp>, as the umbrella does");
    together([&] { load_weights(*this, path); });
  }

  /// f() with every rank holding the model that the ranks agree on: the exact mean of the running
  /// statistics, and of the weights too where they differ between ranks. What was there comes back.
  template <class F>
  auto with_mean_model(const F& f) {
    return together([&] { return detail::with_mean_model(*this, f); });
  }

  /// Root mean square over ranks of the distance between their weights and the mean. Collective.
  double consensus_distance() { return cordee::consensus_distance(*this); }

  /// Runs f; if it throws, the peers are told why before the exception goes on.
  template <class F>
  auto together(const F& f) {
    const auto words = [this] {
      return text("trainer after ", steps_taken(), " steps; ", courier_.last_finished());
    };
    const auto reached = [this] { return courier_.reached(); };
    const errand here(words, reached);
    return or_abandon(reducer_.link, f);
  }

  /// New weights for all ranks, from rank 0's plane; state of the rule stays.
  void adopt_weights() {
    share(reducer_.link, weights(), stream_);
    planes_.introduce(reducer_, buckets(), stream_);
    model_.publish(weights(), image_, stream_);
  }

  [[nodiscard]] M& model() { return model_; }
  [[nodiscard]] const O& rule() const { return rule_; }
  [[nodiscard]] S& schedule() { return schedule_; }
  [[nodiscard]] const S& schedule() const { return schedule_; }
  [[nodiscard]] const R& reducer() const { return reducer_; }
  [[nodiscard]] const auto& link() const { return reducer_.link; }
  [[nodiscard]] const trainer_options& options() const { return options_; }
  [[nodiscard]] typename M::image& image() { return image_; }
  [[nodiscard]] stream compute() const { return stream_; }
  [[nodiscard]] auto buckets() const { return std::span(buckets_.data(), buckets_.size()); }
  [[nodiscard]] std::span<const segment> segments() const { return planes_.table(); }
  [[nodiscard]] std::int64_t steps_taken() const { return progress_.step; }
  [[nodiscard]] std::size_t arena_bytes() const { return planes_.bytes(); }
  [[nodiscard]] std::string_view launches() const { return play_.words(); }
  [[nodiscard]] bool looks() const { return always_looks || options_.guarded; }  // for NaNs

  /// Masters, statistics at the tail. What is written here acts after `adopt_weights`.
  [[nodiscard]] span weights() { return planes_.weights(); }
  [[nodiscard]] span grads() { return planes_.grads(); }
  [[nodiscard]] span slot(int k) { return planes_.slot(k); }
  [[nodiscard]] span reducer_slot(int k) { return planes_.reducer_slot(k); }
  [[nodiscard]] span statistics() { return planes_.statistics(); }

 private:
  static constexpr bool exact = gradient_is_exact, mixes = O::needs == agreement::mixing;
  static constexpr bool looks_early = !exact || O::norms == when::before_propose;
  static constexpr bool scales = precision::scales_loss;
  static constexpr bool always_looks = !exact || scales || O::norms == when::before_accept;
  using stretch = detail::stretch;

  template <class F>
  step_outcome take_step(std::span<const batch<device>> micro, double epoch, const F& meanwhile) {
    settle_norms(model_, reducer_.link, statistics(), out_.now.epoch, epoch, stream_);
    out_ = {.now = progress_.at(epoch, rate_of(schedule_, epoch)), .loss_scale = scale_};
    next_ = 0;
    spoke_ = false;
    planes_.begin(out_.now, stream_);
    planes_.clear(grads(), stream_);
    for (std::size_t i = 0; i < micro.size(); ++i) {
      batch<device> b = micro[i].under(scale_, epoch);
      if constexpr (scales) b.scale = planes_.scale();
      const bool last = i + 1 == micro.size();
      typename device::event scored;
      const auto pass = [&] {
        model_.forward(image_, weights(), b, phase::train, stream_);
        scored = device_.record(stream_);
        const auto when_last = [&](std::size_t k) { last ? ready(k) : void(); };
        model_.backward(image_, grads(), into::add, when_last, stream_);
      };
      if (play_(last ? stretch::last_pass : stretch::pass, model_, b, stream_, pass)) {
        scored = device_.record(stream_);
        if (last) next_ = buckets_.size();
        spoke_ = last && speaks_early();
      }
      device_.await(late_, scored);  // while backward goes on
      out_.train += model_.read_score(late_);
    }
    if (micro.empty()) ready(0);
    expects(next_ == buckets_.size(), "trainer: backward ended before every segment was ready");
    if constexpr (scales && !exact) planes_.rescale(options_.loss_scaling, stream_);
    if constexpr (O::needs == agreement::loose) learn(device_.record(stream_));
    if (!speaks_early())
      for (const bucket& b : buckets_) speak(b, out_.applied);
    courier_.finish();
    play_(stretch::settle, model_, {}, stream_, [this] { settle(); });
    const auto settled = device_.record(stream_);
    play_(stretch::accept, model_, {}, stream_, [this] { accept(); });
    meanwhile();
    if constexpr (O::needs != agreement::loose) learn(settled);
    advance();
    return out_;
  }

  // Segment k and all behind it are ready: so is each bucket that begins there.
  void ready(std::size_t k) {
    for (; next_ < buckets_.size() && k <= buckets_[next_].first; ++next_) {
      const bucket& b = buckets_[next_];
      if constexpr (scales) planes_.unscale(grads().subspan(b.offset, b.size), stream_);
      if constexpr (looks_early) look(b);
      if (speaks_early()) speak(b, true);
    }
  }

  // The local gradient of one bucket: norms, and whether it is finite.
  void look(const bucket& b) {
    planes_.measure(b.segments, b.first, O::norms == when::before_propose, stream_);
    if constexpr (exact) return;  // the mean will tell, on every rank alike
    planes_.tally(b.segments, b.first, false, stream_);
    if constexpr (mixes) planes_.clear_if_spoilt(grads().subspan(b.offset, b.size), stream_);
  }

  void speak(const bucket& b, bool finite) {
    const span said = rule_.propose(planes_.sight(b.segments, b.first, finite), out_.now, stream_);
    if (said.empty()) return;
    spoke_ = true;
    courier_.post({planes_.letter(b, said, scratch_.span()), out_.now}, stream_);
  }

  // Every bucket is back: flag and norms of the mean, where the rule steps on one.
  void settle() {
    if (!exact || !looks()) return;
    planes_.measure(planes_.trainables(), 0, O::norms == when::before_accept, stream_);
    planes_.tally(planes_.trainables(), 0, true, stream_);
    if constexpr (scales) planes_.rescale(options_.loss_scaling, stream_);
  }

  // A step on a mean that is not finite leaves every bit, though the host may not know of it yet.
  void accept() {
    const auto rule = [&](const auto& v, auto s) { rule_.accept(v, out_.now, s); };
    planes_.undo_if_spoilt(exact, stream_);
    if constexpr (exact)
      planes_.unless_spoilt(stream_, rule);
    else
      rule(planes_.sight(planes_.trainables(), 0, out_.applied), stream_);
    model_.publish(weights(), image_, stream_);
  }

  // What the account said at that event; the device goes on.
  void learn(const typename device::event& then) {
    out_.grad_square = std::nan("");
    if (!looks()) return;
    device_.await(late_, then);
    const account found = planes_.found(late_);
    out_.grad_square = found.grad_square;
    out_.zeroed = mixes ? found.spoils : 0;
    out_.applied = mixes || found.spoils == 0;
    if constexpr (scales) scale_ = found.scale.value;
  }

  void advance() {
    progress_.advance(out_, spoke_);
    observe(model_, reducer_.link, weights(), out_.now, out_.finite(), late_, stream_);
    if (progress_.not_finite >= options_.patience)
      give_up(progress_.not_finite, planes_.first_not_finite(stream_).name, out_, scales);
  }

  [[nodiscard]] bool speaks_early() const { return O::eager && options_.overlap; }

  M& model_;
  O rule_;
  S schedule_;
  R reducer_;
  trainer_options options_;
  device device_;
  stream stream_, late_;  // where work goes, and where what it found is fetched
  std::vector<bucket> buckets_;
  planes<Real, device, O, R> planes_;
  typename M::image image_;
  buffer<std::byte, device> scratch_;  // the courier carries one bucket at a time

  step_outcome out_;
  std::size_t next_ = 0;  // the next bucket to become ready
  bool spoke_ = false;
  double scale_ = 1;  // of the next step's loss
  progress progress_;
  detail::player<M, O, R> play_;
  courier<R, Real, device> courier_;  // last: its thread ends before what it uses goes
};

}  // namespace cordee::inline CORDEE_ABI
