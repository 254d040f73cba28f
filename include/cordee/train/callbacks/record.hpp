// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What `fit` reports to its callbacks.
//
// A callback is any object with one or more of
//
//   begin(const run_plan&)                 before the first step
//   step(const step_record&)               after each update
//   begin_validation(const step_record&)   before an evaluation, with the last update
//   epoch(const epoch_record&)             at the end of each epoch, after the evaluation
//   end(const run_summary&)                after the last step
//
// which are called on rank 0 only, with values reduced over all ranks; and of
//
//   check_on_all_ranks(run, epoch)                 before `begin` of any callback: throws error
//                                                  if the run cannot begin, and changes no file
//   begin_on_all_ranks(run, epoch)                 before the first step; `epoch`: of data seen
//   step_on_all_ranks(run, epoch)                  after each update
//   begin_validation_on_all_ranks(run)
//   epoch_on_all_ranks(run, const epoch_record&)   with the same record on every rank
//   end_on_all_ranks(run)
//
// which are collective, receive the trainer and, except the check, are called after the others
// (examples: checkpoint/checkpoint.hpp, recalibration.hpp). Those of a step and an epoch return
// whether the run ends here. An exception from them ends the run on every rank. To write a
// callback, copy csv.hpp, which writes a file, or early_stopping.hpp, which ends a run. In `begin`,
// first_step > 0 means that the run continues from there: append.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/train/step/gradient_noise.hpp>
#include <cordee/train/step/trust_ratio_quantiles.hpp>

namespace cordee::inline CORDEE_ABI {

/// What is known before the first step.
struct run_plan {
  /// Updates of the whole run (`steps`), and those before this fit (`first_step`), above 0 if the
  /// run continues.
  std::int64_t steps = 0, first_step = 0;
  /// Epochs of the whole run (`epochs`), and those before this fit (`first_epoch`).
  double epochs = 0, first_epoch = 0;
  /// Samples of the data set, and of the first update over all ranks.
  std::int64_t samples = 0, global_batch = 0;
  /// Samples of a micro-batch; one fewer on some ranks if the ranks do not divide the batch.
  std::int64_t micro_batch = 0;
  int ranks = 1, accumulate = 1;  ///< Ranks, and micro-batches of an update on each.
  /// Whether the first step begins an epoch; otherwise the loader is inside one.
  bool begins_epoch = true;
  std::vector<std::string> warnings{};  ///< Likely mistakes, a sentence each.
  std::int64_t validation_samples = 0;  ///< Samples of the `validation`; 0 without one.
};

/// One update, reduced over ranks. Members that do not apply to a run are empty.
struct step_record {
  step_info info{};  ///< Position and learning rate of the update.
  metrics train{};   ///< Sums over the global batch.
  /// |g| of the exact mean before clipping, or the root mean square over ranks of their own |g|;
  /// NaN if the gradient is not tested.
  double grad_norm = 0;
  bool grad_norm_local = false;  ///< Whether grad_norm is of the ranks' own gradients.
  /// Steps skipped since fit began, including those before a resume; summed over ranks if each
  /// skips its own.
  std::int64_t skipped = 0;
  /// Averages so far, if trainer_options::measure_gradient_noise; else empty.
  detail::train::gradient_noise noise{};
  double seconds = 0;  ///< Seconds since this fit began, by rank 0's clock.
  /// Seconds of this update in which ranks waited for the loader; mean over ranks.
  double input_wait = 0;
  /// Seconds in which they waited for the exchange after backward's end; mean over ranks. Only if
  /// host threads exchange host memory.
  std::optional<double> exposed_exchange{};
  /// Factor by which `clip` multiplied the exact mean, of norm grad_norm; 1 if that is at most
  /// max_norm.
  std::optional<double> clip_factor{};
  /// Loss scale, for precisions that have one; mean over ranks if each has its own.
  std::optional<double> loss_scale{};
  /// Trust ratios over the segments that adapt, for an applied update; if ranks have their own,
  /// means over those that have any.
  std::optional<detail::train::quantiles> trust_ratios{};
  double epochs_seen = 0;  ///< Epochs of data seen after the update.
  std::int64_t steps = 0;  ///< Updates of the whole run, as its batches are currently planned.
};

/// The end of an epoch, or of a run that ends inside one.
struct epoch_record {
  step_record last{};  ///< The epoch's last update.
  metrics train{};     ///< Sums over the epoch, on all ranks.
  /// Metrics of the mean model, with each sample counted once; only with a `validation`.
  std::optional<metrics> validation{};
  /// See run_operations::consensus_distance; only if the ranks' weights differ.
  std::optional<double> consensus_distance{};
};

/// A fit at its end.
struct run_summary {
  epoch_record last{};  ///< The last epoch, or the part of it that was trained.
  /// Updates of this fit, and skipped steps as in step_record.
  std::int64_t steps = 0, skipped = 0;
  double seconds = 0;  ///< Seconds of this fit.
  /// Whether a callback ended it before the end of the last epoch (checkpoint: on a signal).
  bool stopped = false;
};

namespace detail::train {

/// f(name, optional value) for each measurement of a step that logs write beside its metrics.
template <class F>
void for_measurements(const step_record& r, const F& f) {
  f("input_wait_seconds", std::optional(r.input_wait));
  f("exposed_exchange_seconds", r.exposed_exchange);
  f("clip_factor", r.clip_factor);
  f("loss_scale", r.loss_scale);
  const auto ratio = [&](const char* name, double quantiles::*which) {
    f(name, r.trust_ratios ? std::optional((*r.trust_ratios).*which) : std::nullopt);
  };
  ratio("trust_ratio_min", &quantiles::min);
  ratio("trust_ratio_first_quartile", &quantiles::first_quartile);
  ratio("trust_ratio_median", &quantiles::median);
  ratio("trust_ratio_third_quartile", &quantiles::third_quartile);
  ratio("trust_ratio_max", &quantiles::max);
}

/// A callback that gets each update's record. Only for such ones are trust ratios read back.
template <class C>
concept StepCallback = requires(C& c, const step_record& r) { c.step(r); };

template <class C>
void call_begin(C& callback, const run_plan& p) {
  if constexpr (requires { callback.begin(p); }) callback.begin(p);
}
template <class C>
void call_step(C& callback, const step_record& r) {
  if constexpr (StepCallback<C>) callback.step(r);
}
template <class C>
void call_begin_validation(C& callback, const step_record& r) {
  if constexpr (requires { callback.begin_validation(r); }) callback.begin_validation(r);
}
template <class C>
void call_epoch(C& callback, const epoch_record& r) {
  if constexpr (requires { callback.epoch(r); }) callback.epoch(r);
}
template <class C>
void call_end(C& callback, const run_summary& r) {
  if constexpr (requires { callback.end(r); }) callback.end(r);
}

/// In a fit that has no validation.
template <class C>
void call_refuse_without_validation(const C& callback) {
  if constexpr (requires { callback.refuse_without_validation(); })
    callback.refuse_without_validation();
}

template <class C, class Run>
void call_check_on_all_ranks(C& callback, Run& run, double epoch) {
  if constexpr (requires { callback.check_on_all_ranks(run, epoch); })
    callback.check_on_all_ranks(run, epoch);
}
template <class C, class Run>
void call_begin_on_all_ranks(C& callback, Run& run, double epoch) {
  if constexpr (requires { callback.begin_on_all_ranks(run, epoch); })
    callback.begin_on_all_ranks(run, epoch);
}
template <class C, class Run>
void call_begin_validation_on_all_ranks(C& callback, Run& run) {
  if constexpr (requires { callback.begin_validation_on_all_ranks(run); })
    callback.begin_validation_on_all_ranks(run);
}
template <class C, class Run>
bool call_step_on_all_ranks(C& callback, Run& run, double epoch) {
  if constexpr (requires { callback.step_on_all_ranks(run, epoch); })
    return callback.step_on_all_ranks(run, epoch);
  else
    return false;
}
template <class C, class Run>
bool call_epoch_on_all_ranks(C& callback, Run& run, const epoch_record& r) {
  if constexpr (requires { callback.epoch_on_all_ranks(run, r); })
    return callback.epoch_on_all_ranks(run, r);
  else
    return false;
}
template <class C, class Run>
void call_end_on_all_ranks(C& callback, Run& run) {
  if constexpr (requires { callback.end_on_all_ranks(run); }) callback.end_on_all_ranks(run);
}

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
