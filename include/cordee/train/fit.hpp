// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The training loop: fetch, step, reduce what is reported, call the callbacks.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/trace.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/callbacks/allreduce_record.hpp>
#include <cordee/train/callbacks/callback_check.hpp>
#include <cordee/train/callbacks/record.hpp>
#include <cordee/train/checks/plan_warnings.hpp>
#include <cordee/train/checks/same_loaders.hpp>
#include <cordee/train/input/feed.hpp>
#include <cordee/train/input/update_copy.hpp>
#include <cordee/train/input/upload.hpp>
#include <cordee/train/measure/evaluate.hpp>
#include <cordee/train/step/decided_batch.hpp>
#include <cordee/train/step/run_state.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Shows an adaptive schedule the update, and the epoch if the update ended it. Collective.
template <class Run, class F>
void observe_update(Run& run, const F& feed, const epoch_record& e, bool epoch_ends,
                    observation& seen) {
  seen.epoch = e.last.info.epoch;
  seen.loss = e.last.train.mean_loss();
  if (epoch_ends) {
    const gradient_noise& noise = run.fit_state().noise;
    seen.noise_batches =
        (noise.scale() - noise.scale_error()) / static_cast<double>(feed.global_batch());
    seen.epoch_loss = e.train.mean_loss();
    if (e.validation) seen.validation_loss = e.validation->mean_loss();
  }
  schedule::observe(run.schedule(), seen);
  if (epoch_ends) agree_on_schedule(run);
}

/// Callbacks that are not a `validation` have nothing to evaluate.
template <class Run, class F, class L>
void validate(Run&, F&, L&, std::optional<metrics>&) {}
template <class Run, class F, class S>
void validate(Run& run, F& feed, validation<S>& v, std::optional<metrics>& result) {
  const core::trace_range range("validation");
  const int batch = v.batch == 0 ? validation_batch(feed) : v.batch;
  result = evaluate(run, v.dataset, feed.normalization(), batch, v.decode_threads);
}

template <class Run, class F, class B, class C>
void validate(Run& run, F&, batch_validation<B, C>& v, std::optional<metrics>& result) {
  const core::trace_range range("validation");
  result = evaluate_batches(run, v.batches, v.count);
}

template <class L>
void count_samples(const L&, std::int64_t&) {}
template <class S>
void count_samples(const validation<S>& v, std::int64_t& samples) {
  samples = static_cast<std::int64_t>(v.dataset.size());
}

template <class>
inline constexpr bool is_validation = false;
template <class S>
inline constexpr bool is_validation<validation<S>> = true;
template <class B, class C>
inline constexpr bool is_validation<batch_validation<B, C>> = true;

template <class C, class Run>
consteval bool is_fit_argument() {
  if constexpr (is_validation<C>)
    return true;
  else
    return has_callback_members<C, Run>();
}

/// The sum of all ranks' samples. Collective.
template <class Run>
[[gnu::cold]] std::int64_t sum_samples(Run& run, std::int64_t own) {
  std::array<double, 1> samples{static_cast<double>(own)};
  allreduce_host(run.comm(), samples, reduce_op::sum);
  return core::llround(samples[0]);
}
/// Copies of an update's micro-batches, with the number of all ranks' samples. Collective.
template <class Run, class B>
[[gnu::cold]] std::vector<B> with_all_samples(Run& run, std::span<const B> micro) {
  std::vector<B> all(micro.begin(), micro.end());
  std::int64_t own = 0;
  for (const B& b : all) own += b.count;
  const std::int64_t samples = sum_samples(run, own);
  for (B& b : all) b.global_samples = samples;
  return all;
}

template <class Run, class F>
[[gnu::cold]] run_plan make_plan(Run& run, F& feed, double epochs) {
  const std::int64_t first = feed.step();
  return {feed.steps(epochs),
          first,
          epochs,
          feed.epoch(first),
          feed.samples(),
          feed.global_batch(),
          micro_batch(feed),
          feed.ranks(),
          feed.accumulate(),
          first == 0 || core::floor(feed.epoch(first)) > core::floor(feed.epoch(first - 1)),
          plan_warnings(run, feed, epochs)};
}

/// Sets where this fit begins: at the loader's position or, after a restore, at the state's, which
/// the loader then continues from. Throws error if that is no position of this loader.
template <class F>
[[gnu::cold]] void begin_fit(fit_state& state, F& feed, bool reports) {
  fit_position own{.update = feed.step(),
                   .samples = feed.samples(),
                   .global_batch = feed.global_batch(),
                   .epochs_per_update = feed.epoch(1)};
  if constexpr (requires { own.seed = feed.seed(); }) own.seed = feed.seed();
  if (state.resume != nullptr && state.samples > 0) {  // 0: of a run without fit
    state.resume(state, own, reports);
    state.expect_same(state, own, feed.epoch(own.update));
    if constexpr (requires { feed.seek(own.update); })
      feed.seek(own.update);
    else if (feed.step() != own.update)
      throw error(concat("fit: a loader without seek() is at update ", feed.step(),
                         ", the run is continued at ", own.update,
                         ": give the loader `void seek(std::int64_t step)`"));
  }
  own.epochs = feed.epoch(own.update);
  describe_feed(state.data, feed, state.resume != nullptr, reports);
  static_cast<fit_position&>(state) = own;
}

// Cold: a step takes milliseconds, so the code between two of them is compiled for size.
template <class Run, class F, class... Callbacks>
[[gnu::cold]] run_summary fit(Run& run, F& feed, double epochs, Callbacks&... callbacks) {
  using S = std::remove_cvref_t<decltype(run.schedule())>;
  constexpr bool adaptive = schedule::AdaptiveSchedule<S>;
  constexpr bool reduces = sizeof...(callbacks) > 0 || adaptive;  // each step; else each epoch
  static_assert((is_fit_argument<Callbacks, Run>() && ...));
  static_assert(!schedule::needs_validation<S>() || (is_validation<Callbacks> || ...),
                "the schedule follows the loss of a validation: pass `validation{dataset}` to fit, "
                "or choose one that follows the training loss (training_plateau)");
  if constexpr (nn::ImageModel<typename Run::model_type>) {
    static_assert(ImageFeed<F>, "fit: a model of images needs a loader of images in classes");
    expect_shapes_match<typename Run::model_type>(feed);
  } else {
    static_assert(
        requires(upload_of<typename Run::model_type>& u) { u.to(feed.next(), run.compute()); },
        "fit: the source's batches are of another type than the model's data, such as Data of "
        "custom_model<Data>: its function returns that type");
  }
  expects(epochs >= 0 && core::isfinite(epochs),
          "fit: the number of epochs is negative, NaN or infinite");
  expects(feed.ranks() == run.comm().size(),
          "fit: the loader and the reducer's communicator have different numbers of ranks");
  if constexpr (!(is_validation<Callbacks> || ...))
    (call_refuse_without_validation(callbacks), ...);
  set_decided_batch(run, feed);
  constexpr bool single_rank = comm::single_rank<std::remove_cvref_t<decltype(run.comm())>>;
  if constexpr (!single_rank)
    expect_same_loaders(run.comm(), feed, run.schedule(), epochs, callbacks...);

  const bool reports = run.comm().rank() == 0;
  fit_state& state = run.fit_state();
  begin_fit(state, feed, reports);
  (expect_validation_fits(run, callbacks), ...);
  const std::int64_t first = feed.step();
  std::int64_t total = feed.steps(epochs);
  // What refuses the run does so before any callback opens a file.
  (call_check_on_all_ranks(callbacks, run, feed.epoch(first)), ...);
  if constexpr (sizeof...(callbacks) > 0)
    if (reports) {
      run_plan plan = make_plan(run, feed, epochs);
      (count_samples(callbacks, plan.validation_samples), ...);
      (call_begin(callbacks, plan), ...);
    }
  (call_begin_on_all_ranks(callbacks, run, feed.epoch(first)), ...);

  const double start = comm::seconds_now(run.comm());
  const auto elapsed = [&] { return comm::seconds_now(run.comm()) - start; };
  run_summary summary;
  upload_of<typename Run::model_type> uploaded(run.model().get_device());
  std::span<const typename Run::batch_type> next_batches;
  double input_wait = 0;                    // seconds, of the update that is being made
  [[maybe_unused]] metrics own_in_epoch{};  // of this rank, until an epoch's end reduces them
  const auto fetch = [&](std::int64_t k) {
    if (k >= total) return;
    const double asked = elapsed();
    auto&& read = core::traced("input", k, [&]() -> decltype(auto) { return feed.next(); });
    input_wait += elapsed() - asked;
    next_batches = uploaded.to(read, run.compute());
    if constexpr (requires { feed.add_upload(uploaded.take_seconds()); })
      feed.add_upload(uploaded.take_seconds());
  };
  constexpr bool looks_ahead = nn::LooksAhead<typename Run::model_type>;
  [[maybe_unused]] std::conditional_t<looks_ahead, update_copy, no_work> copy;
  [[maybe_unused]] std::conditional_t<CountsSamples<F>, std::vector<typename Run::batch_type>,
                                      no_work>
      counted;
  fetch(first);
  for (std::int64_t k = first; k < total; ++k) {
    auto batches = next_batches;
    if constexpr (looks_ahead) {
      batches = copy.of(batches);
      fetch(k + 1);
      if (k + 1 < total) run.look_ahead(next_batches);
    }
    const auto meanwhile = [&] {
      if constexpr (!looks_ahead) fetch(k + 1);
    };
    if constexpr (CountsSamples<F>) batches = counted = with_all_samples(run, batches);
    const auto out =
        core::traced("step", k, [&] { return run.step(batches, feed.epoch(k), meanwhile); });
    const bool epoch_ends = core::floor(feed.epoch(k + 1)) > core::floor(feed.epoch(k));
    const bool reports_epoch = epoch_ends || k + 1 == total;
    const double waited = std::exchange(input_wait, 0.0);
    step_record record{out.info};
    if constexpr (reduces) {
      record = allreduce_record<(StepCallback<Callbacks> || ...)>(run, out, state.skipped,
                                                                  elapsed(), waited);
      state.in_epoch += record.train;
    } else {
      own_in_epoch += out.train;
      if (reports_epoch) {
        record = allreduce_record<false>(run, out, 0, elapsed(), waited);
        state.in_epoch += allreduce_metrics(run, std::exchange(own_in_epoch, {}));
      }
      record.skipped = state.skipped + (out.finite() ? 0 : 1);
    }
    observation seen;
    if constexpr (Run::gradient_is_exact && !single_rank)
      if (run.options().measure_gradient_noise) measure_noise(run, out, state.noise, seen);
    record.noise = state.noise;
    state.skipped = record.skipped;
    state.update = k + 1;
    state.epochs = record.epochs_seen = feed.epoch(k + 1);
    record.steps = total;
    if (reports) (call_step(callbacks, record), ...);

    epoch_record e{record, state.in_epoch};
    if (reports_epoch) {
      if constexpr (Run::weights_differ && sizeof...(callbacks) > 0)
        e.consensus_distance = run.consensus_distance();
      if constexpr ((is_validation<Callbacks> || ...)) {
        if (reports) (call_begin_validation(callbacks, record), ...);
        (call_begin_validation_on_all_ranks(callbacks, run), ...);
      }
      (validate(run, feed, callbacks, e.validation), ...);
    }
    if constexpr (adaptive) observe_update(run, feed, e, epoch_ends, seen);
    if constexpr (schedule::DecidesBatch<S>)
      if (epoch_ends && changes_batch(run, feed, k + 1)) {
        total = feed.steps(epochs);
        fetch(k + 1);
      }
    bool stops = false;
    if (reports_epoch) {
      if (reports) (call_epoch(callbacks, e), ...);
      summary.last = e;
      if (epoch_ends) state.in_epoch = {};  // else a resumed run continues with the epoch
      ((stops |= call_epoch_on_all_ranks(callbacks, run, e)), ...);
    }
    ((stops |= call_step_on_all_ranks(callbacks, run, feed.epoch(k + 1))), ...);
    ++summary.steps;
    summary.stopped = stops && k + 1 < total;
    if (!stops) continue;
    if constexpr (requires { feed.seek(k + 1); }) feed.seek(k + 1);  // it is one update ahead
    break;
  }
  (call_end_on_all_ranks(callbacks, run), ...);
  summary.skipped = state.skipped;
  summary.seconds = elapsed();
  if constexpr (!single_rank) {  // also a barrier: no rank returns before all have finished
    std::array<double, 1> own_skipped{static_cast<double>(summary.skipped)};
    allreduce_host(run.comm(), own_skipped, reduce_op::sum);
    if constexpr (!reduces && !Run::gradient_is_exact)
      summary.skipped = summary.last.last.skipped = core::llround(own_skipped[0]);
  }
  if (reports) (call_end(callbacks, summary), ...);
  return summary;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
