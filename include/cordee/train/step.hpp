// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What one may say about the steps of a run, and what each of them says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <cordee/core/error.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/core/text.hpp>
#include <cordee/train/loss_scale.hpp>

namespace cordee::inline CORDEE_ABI {

struct trainer_options {
  /// A message is at most this long, unless one parameter tensor alone is longer.
  std::size_t bucket_bytes = 1u << 20;
  /// Rules that can speak while backward runs do so.
  bool overlap = true;
  /// On a GPU, record the launches of a step and replay them (replay.hpp). `label_smoothing` and
  /// the like may change meanwhile, pointers behind the library's back may not.
  bool replay = false;
  /// Read the mean once more to see that it is finite, where no norm does it anyway. Without, a
  /// gradient that is not finite destroys the weights; a scaled loss is always guarded.
  bool guarded = true;
  /// So many steps in a row that are not finite end the run.
  int patience = 20;
  bool check_stability = true;  ///< refuse momentum that does not survive the reducer's graph
  /// Of the first weights.
  std::uint64_t seed = 0;
  /// Where the precision scales its loss (fp16).
  cordee::loss_scaling loss_scaling{};
};

/// What one step was, as this rank saw it.
struct step_outcome {
  moment now{};
  score train{};           // sums over this rank's samples
  double grad_square = 0;  // of the mean if the rule needs it exact, else of this rank's gradient
  bool applied = true;     // false: this rank's step was skipped
  int zeroed = 0;          // buckets that counted as a zero gradient (mixing rules)
  double loss_scale = 1;   // that this rank's gradients were made with

  /// Whether every number of the gradient was finite.
  [[nodiscard]] bool finite() const { return applied && zeroed == 0; }
};

/// Where a run stands.
struct progress {
  std::int64_t step = 0, applied = 0, round = 0;
  double previous_rate = 0;
  int not_finite = 0;  // steps in a row

  [[nodiscard]] moment at(double epoch, double rate) const {
    return {step, applied, round, epoch, rate, previous_rate};
  }
  void advance(const step_outcome& made, bool spoke) {
    ++step;
    if (spoke) ++round;
    not_finite = made.finite() ? 0 : not_finite + 1;
    if (!made.applied) return;
    ++applied;
    previous_rate = made.now.rate;
  }
};

namespace detail {
/// What the host does while the device is at work.
struct nothing_else {
  void operator()() const {}
};
}  // namespace detail

/// Ends a run that has not had a finite gradient for so many steps; `tensor` is the first to blame.
[[noreturn, gnu::cold]] inline void give_up(int in_a_row, std::string_view tensor,
                                            const step_outcome& last, bool scaled) {
  throw error(
      text(in_a_row, " steps in a row had a gradient that is not finite, this time first in \"",
           tensor, "\" (step ", last.now.step, ", epoch ", last.now.epoch, ", rate ", last.now.rate,
           ", loss ", last.train.mean_loss(), scaled ? text(", loss scale ", last.loss_scale) : "",
           "): lower the rate, warm up for longer, or look at the input"));
}

}  // namespace cordee::inline CORDEE_ABI
