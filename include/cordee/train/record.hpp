// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What `fit` reports to its callbacks.
//
// A callback is any object with one or more of
//
//   begin(const run_plan&)       before the first step
//   step(const step_record&)     after each update
//   epoch(const epoch_record&)   at the end of each epoch
//   end(const run_summary&)      after the last step
//
// Callbacks are called on rank 0 only, with values reduced over all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>

namespace cordee::inline CORDEE_ABI {

/// What is known before the first step.
struct run_plan {
  std::int64_t steps = 0, first_step = 0;
  double epochs = 0;
  std::int64_t samples = 0, global_batch = 0, micro_batch = 0;
  int ranks = 1, accumulate = 1;
  double radius = 0;  // of the ranks' disagreement per round; 0 if optimizer and reducer leave none
};

/// One update, reduced over ranks.
struct step_record {
  step_info info{};
  metrics train{};               // sums over the global batch
  double grad_norm = 0;          // |g| of the exact mean, or
  bool grad_norm_local = false;  // root mean square over ranks of their own |g|
  std::int64_t skipped = 0;      // steps skipped since the start, summed over ranks
  double seconds = 0;            // since the run began, by rank 0's clock
};

/// The end of an epoch, or of the run if that is in the middle of one.
struct epoch_record {
  step_record last{};
  metrics train{};                      // sums over the epoch
  std::optional<metrics> validation{};  // of the mean model, each sample once
};

struct run_summary {
  epoch_record last{};
  std::int64_t steps = 0, skipped = 0;
  double seconds = 0;
};

namespace detail::train {

/// Between it and 1 the disagreement shrinks so slowly that the loss's curvature, which moves the
/// radius by about learning rate x curvature, decides whether it shrinks at all.
inline constexpr double warning_radius = 0.999;

inline std::string describe_radius(double radius) {
  return concat("the ranks' disagreement is multiplied by ", radius, " per round",
                radius >= 1               ? ": it grows"
                : radius > warning_radius ? ": too close to 1 for a learning rate that is not tiny"
                                          : "");
}

template <class C>
void call_begin(C& callback, const run_plan& p) {
  if constexpr (requires { callback.begin(p); }) callback.begin(p);
}
template <class C>
void call_step(C& callback, const step_record& r) {
  if constexpr (requires { callback.step(r); }) callback.step(r);
}
template <class C>
void call_epoch(C& callback, const epoch_record& r) {
  if constexpr (requires { callback.epoch(r); }) callback.epoch(r);
}
template <class C>
void call_end(C& callback, const run_summary& r) {
  if constexpr (requires { callback.end(r); }) callback.end(r);
}

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
