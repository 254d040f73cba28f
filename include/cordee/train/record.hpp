// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a run reports, and who listens.
//
// A listener is any object with one or more of
//   begin(const run_plan&)   step(const step_record&)   epoch(const epoch_record&)   end(const
//   run_summary&)
// It is called on rank 0 alone; what it is told has been agreed by all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

/// What will happen, known before the first step.
struct run_plan {
  std::int64_t steps = 0, first_step = 0;
  double epochs = 0;
  std::int64_t samples = 0, global_batch = 0, per_rank = 0;
  int ranks = 1, accumulate = 1;
  double radius = 0;  // of the ranks' disagreement, a round; 0: rule and reducer leave none
};

/// Above it the curvature of the loss, which moves a radius by about rate x curvature, decides.
inline constexpr double uneasy_radius = 0.999;

inline std::string describe_radius(double radius) {
  return text("the ranks' disagreement is multiplied by ", radius, " a round",
              radius >= 1              ? ": they drift apart"
              : radius > uneasy_radius ? ": too near to 1 for a rate that is not tiny"
                                       : "");
}

/// One update, agreed over ranks.
struct step_record {
  moment now{};
  score train{};         // sums over the global batch
  double grad_norm = 0;  // of the exact mean; else the root mean square of the local norms
  bool grad_norm_local = false;
  std::int64_t skipped = 0;  // steps not taken since the start, over all ranks
  double seconds = 0;        // since the run began, rank 0's clock
};

/// The end of an epoch (of the run, if that falls in the middle of one).
struct epoch_record {
  step_record last{};
  score train{};                    // sums over the epoch
  std::optional<score> held_out{};  // each held-out sample once, on the agreed model
};

struct run_summary {
  epoch_record last{};
  std::int64_t steps = 0, skipped = 0;
  double seconds = 0;
};

namespace detail {
template <class L>
void tell_begin(L& l, const run_plan& p) {
  if constexpr (requires { l.begin(p); }) l.begin(p);
}
template <class L>
void tell_step(L& l, const step_record& r) {
  if constexpr (requires { l.step(r); }) l.step(r);
}
template <class L>
void tell_epoch(L& l, const epoch_record& r) {
  if constexpr (requires { l.epoch(r); }) l.epoch(r);
}
template <class L>
void tell_end(L& l, const run_summary& r) {
  if constexpr (requires { l.end(r); }) l.end(r);
}
}  // namespace detail

}  // namespace cordee::inline CORDEE_ABI
