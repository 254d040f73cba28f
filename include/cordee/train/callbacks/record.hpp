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
//                                                  where the run cannot begin, and changes no file
//   begin_on_all_ranks(run, epoch)                 before the first step; `epoch`: of data seen
//   step_on_all_ranks(run, epoch)                  after each update
//   begin_validation_on_all_ranks(run)
//   epoch_on_all_ranks(run, const epoch_record&)   with the same record on every rank
//   end_on_all_ranks(run)
//
// which are collective, have the trainer, and, the check excepted, are called after the others
// (examples: checkpoint/checkpoint.hpp, recalibration.hpp). Those of a step and an epoch return
// whether the run ends here. What they throw ends the run on every rank. A callback of your own:
// copy csv.hpp, which writes a file, or early_stopping.hpp, which ends a run. In `begin`,
// first_step > 0 says that the run goes on from there: append.
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
  std::int64_t steps = 0, first_step = 0;
  double epochs = 0, first_epoch = 0;
  std::int64_t samples = 0, global_batch = 0;
  std::int64_t micro_batch = 0;  // of some ranks; of others one sample less if it does not divide
  int ranks = 1, accumulate = 1;
  bool begins_epoch = true;             // with the first step; else the loader is inside of one
  std::vector<std::string> warnings{};  // of what is likely a mistake, a sentence each
  std::int64_t validation_samples = 0;
};

/// One update, reduced over ranks. What has no meaning in a run is absent.
struct step_record {
  step_info info{};
  metrics train{};               // sums over the global batch
  double grad_norm = 0;          // |g| of the exact mean, or
  bool grad_norm_local = false;  // root mean square over ranks of their own |g|
  std::int64_t skipped = 0;      // steps skipped since the start, summed over ranks
  detail::train::gradient_noise
      noise{};         // averages so far, if trainer_options::measure_gradient_noise
  double seconds = 0;  // since the run began, by rank 0's clock
  // Seconds of this update, means over ranks: waiting for the loader, and for the exchange after
  // backward's end. The latter where threads of the host exchange what is in its memory.
  double input_wait = 0;
  std::optional<double> exposed_exchange{};
  // By which `clip` multiplied the exact mean, of norm grad_norm; 1 where it was not longer than
  // max_norm.
  std::optional<double> clip_factor{};
  // Of the ranks where they are not alike: means over those that have one.
  std::optional<double> loss_scale{};  // of precisions that scale their loss
  std::optional<detail::train::quantiles>
      trust_ratios{};      // over the segments that adapt, of an applied update
  double epochs_seen = 0;  // of data, after the update
  std::int64_t steps = 0;  // of the whole run, as its batches are planned now
};

/// The end of an epoch, or of the run if that is in the middle of one.
struct epoch_record {
  step_record last{};
  metrics train{};                      // sums over the epoch
  std::optional<metrics> validation{};  // of the mean model, each sample once
  std::optional<double>
      consensus_distance{};  // where ranks' weights differ: train/run_operations.hpp
};

struct run_summary {
  epoch_record last{};
  std::int64_t steps = 0, skipped = 0;
  double seconds = 0;
  bool stopped = false;  // by a callback, before the last epoch's end (checkpoint: by a signal)
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
