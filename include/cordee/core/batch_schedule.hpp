// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The global batch as a function of epochs: a whole multiple of the first one, which grows or falls
// at given epochs (Smith et al. 2017; Mikami et al. 2018).
//
//   B(e) = factor B(0),  factor of the last stage with `epoch` <= e, 1 before the first stage
//
// A stage starts with the first update that begins at its epoch or later. Pass it to the loader,
// which makes the batches, and to batch_scaled, which scales the learning rate.
#pragma once

#include <cstddef>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI {

/// Stages of the global batch. Called with an epoch, returns its multiple of the first global
/// batch.
struct batch_schedule {
  /// A stage: the global batch from an epoch on.
  struct stage {
    /// Epoch at which the stage begins. Unit: epochs. Range: finite, above 0 and above the previous
    /// stage's epoch, else usage_error.
    double epoch = 0;
    /// Multiple of the first global batch. Range: 1 or more, else usage_error.
    int factor = 1;
    bool operator==(const stage&) const = default;
  };
  /// Maximum number of stages; more do not compile.
  static constexpr std::size_t most_stages = 32;

  /// Stages in order; none: the batch is constant.
  stage stages[most_stages];  // no vector: every program that has a loader would compile its copies

  /// The first stage.
  [[nodiscard]] constexpr const stage* begin() const { return stages; }
  /// One past the last stage that was set.
  [[nodiscard]] constexpr const stage* end() const {
    const stage* last = stages + most_stages;
    while (last != stages && last[-1] == stage{}) --last;
    return last;
  }
  /// Returns the factor of the last stage that begins at `epoch` or before; 1 before the first.
  [[nodiscard]] int operator()(double epoch) const {
    int factor = 1;
    for (const stage& s : *this)
      if (s.epoch <= epoch) factor = s.factor;
    return factor;
  }
  /// Throws usage_error for stages outside their ranges. The loader and `batch_scaled` call it.
  [[gnu::cold, gnu::noinline]] void check() const {
    double before = 0;
    for (const stage& s : *this) {
      expects(s.epoch > before && detail::core::isfinite(s.epoch),
              "batch_schedule: the stages' epochs must be above 0, finite and in order");
      expects(s.factor >= 1, "batch_schedule: a stage's factor of the global batch is below 1");
      before = s.epoch;
    }
  }
  /// One line for logs: "times 2 from epoch 30, times 4 from epoch 60".
  [[nodiscard]] std::string describe() const {
    std::string text;
    for (const stage& s : *this)
      text += concat(text.empty() ? "" : ", ", "times ", s.factor, " from epoch ", s.epoch);
    return text.empty() ? "constant" : text;
  }
};

}  // namespace cordee::inline CORDEE_ABI
