// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Gradual warm-up: a linear ramp over the first epochs, evaluated at each update (Goyal et al.
// 2017).
//
//   warmup         lr(e) = start + (s(W) - start) e / W   for e < W,   then s(e)
//   warmup_then    lr(e) = start + (s(0) - start) e / W   for e < W,   then s(e - W)
//
// `warmup` replaces the first epochs of the schedule and moves nothing else (Goyal's milestones
// stay at 30, 60, 80); it is the usual choice. `warmup_then` precedes the schedule, whose epochs
// count from the end of the ramp (MLPerf). Both are continuous at W. For 90 epochs in all, write
//
//   warmup_then{5, polynomial{.peak = 1, .epochs = 85}}
#pragma once

#include <cordee/core/error.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::schedule {

/// The learning rate at which a ramp starts.
struct start_learning_rate {
  /// Learning rate at epoch 0. Range: finite, 0 or more, else usage_error. Default: as with LARS
  /// and in the TPU recipes.
  /// Goyal et al. start from the learning rate of one worker: start_learning_rate{0.1}.
  double value = 0;
};

inline double ramp(double epoch, double epochs, double start, double end) {
  return start + (end - start) * (epoch > 0 ? epoch / epochs : 0);
}
inline void expects_length(double epochs) {
  expect_finite("warmup", {{"the number of warm-up epochs", epochs}});
  expects(epochs >= 0, "warmup: the number of warm-up epochs is negative");
}

}  // namespace detail::schedule

/// A schedule whose first epochs are replaced by a warm-up ramp.
template <Schedule S>
struct warmup {
  /// Length of the ramp; 0: none. Unit: epochs. Range: finite, 0 or more, else usage_error.
  double epochs = 0;
  S inner{};  ///< The schedule; the ramp leads to its value at `epochs`.
  detail::schedule::start_learning_rate start{};  ///< Learning rate at epoch 0, in braces.

  /// The ramp before `epochs`, then the inner schedule at the same epoch.
  double operator()(double epoch) const {
    detail::schedule::expects_length(epochs);
    detail::schedule::expect_not_negative("warmup", {"the first learning rate", start.value});
    return epoch < epochs ? detail::schedule::ramp(epoch, epochs, start.value, inner(epochs))
                          : inner(epoch);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("warm-up from ", start.value, " over the first ", epochs,
                  " epochs of: ", cordee::describe(inner));
  }
};
template <class S>
warmup(double, S) -> warmup<S>;
template <class S>
warmup(double, S, detail::schedule::start_learning_rate) -> warmup<S>;

/// A warm-up ramp, then a schedule from its beginning.
template <Schedule S>
struct warmup_then {
  /// Length of the ramp; 0: none. Unit: epochs. Range: finite, 0 or more, else usage_error.
  double epochs = 0;
  S inner{};  ///< The schedule after the ramp; its epoch 0 is the ramp's end.
  detail::schedule::start_learning_rate start{};  ///< Learning rate at epoch 0, in braces.

  /// The ramp before `epochs`, then the inner schedule from its epoch 0.
  double operator()(double epoch) const {
    detail::schedule::expects_length(epochs);
    detail::schedule::expect_not_negative("warmup_then", {"the first learning rate", start.value});
    return epoch < epochs ? detail::schedule::ramp(epoch, epochs, start.value, inner(0.0))
                          : inner(epoch - epochs);
  }
  /// End of the inner schedule, after the ramp.
  [[nodiscard]] double end_epoch() const { return epochs + detail::schedule::end_epoch_of(inner); }
  /// Passes observations after the ramp to the inner schedule, at its own epochs.
  void observe(observation seen)
    requires detail::schedule::AdaptiveSchedule<S>
  {
    if (seen.epoch < epochs) return;
    seen.epoch -= epochs;
    detail::schedule::observe(inner, seen);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("warm-up from ", start.value, " over ", epochs,
                  " epochs, then: ", cordee::describe(inner));
  }
};
template <class S>
warmup_then(double, S) -> warmup_then<S>;
template <class S>
warmup_then(double, S, detail::schedule::start_learning_rate) -> warmup_then<S>;

}  // namespace cordee::inline CORDEE_ABI
