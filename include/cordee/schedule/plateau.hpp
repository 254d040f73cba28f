// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A learning rate that falls when the loss has stopped falling: PyTorch's ReduceLROnPlateau.
//
//   after each epoch, with loss l:
//     l < best - threshold |best|:   best = l,  bad = 0;      else   bad = bad + 1
//     during `cooldown` epochs after a reduction:   bad = 0
//     bad > patience:   lr = max(factor lr, floor),  bad = 0
//
//   plateau            the loss of fit's validation{dataset}
//   training_plateau   the mean training loss of the epoch
//
// A NaN is an epoch without improvement. A negative loss improves by falling; PyTorch's relative
// threshold is (1 - threshold) best there, above the best, so a constant loss improves and the
// learning rate is never reduced. PyTorch skips reductions below 1e-8; this schedule does not.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::schedule {

struct training_loss {
  static constexpr bool of_validation = false;
  static constexpr std::string_view name = "training";
  static std::optional<double> of(const observation& seen) { return seen.epoch_loss; }
};
struct validation_loss {
  static constexpr bool of_validation = true;
  static constexpr std::string_view name = "validation";
  static std::optional<double> of(const observation& seen) { return seen.validation_loss; }
};

template <class Loss>
struct basic_plateau {
  /// True for `plateau`: fit must have a validation set.
  static constexpr bool needs_validation = Loss::of_validation;

  /// Learning rate before the first reduction. Range: finite, 0 or more, else usage_error.
  double learning_rate = 0.1;
  /// Factor of a reduction. Range: 0 < factor < 1, else usage_error. Default: as PyTorch.
  double factor = 0.1;
  /// Epochs without improvement that are tolerated. Unit: epochs. Range: 0 or more, else
  /// usage_error. Default: as PyTorch.
  int patience = 10;
  /// Least improvement, relative to the best loss. Range: 0 <= threshold < 1, else usage_error.
  /// Default: as PyTorch.
  double threshold = 1e-4;
  /// Epochs after a reduction that are not counted. Unit: epochs. Range: 0 or more, else
  /// usage_error. Default: as PyTorch.
  int cooldown = 0;
  /// Least learning rate. Range: 0 <= floor <= learning_rate, else usage_error. Default: as
  /// PyTorch.
  double floor = 0;

  /// State: reductions, the best loss, epochs without improvement, epochs of cooldown left.
  std::array<double, 4> learned{0, std::numeric_limits<double>::infinity(), 0, 0};

  /// The learning rate after the reductions so far, independent of the epoch.
  double operator()(double) const {
    expect_finite("plateau", {{".learning_rate", learning_rate},
                              {".factor", factor},
                              {".threshold", threshold},
                              {".floor", floor}});
    expects(factor > 0 && factor < 1, "plateau: .factor must be between 0 and 1");
    expects(patience >= 0 && cooldown >= 0, "plateau: .patience or .cooldown is negative");
    expects(threshold >= 0 && threshold < 1, "plateau: .threshold must be from 0 to below 1");
    expects(floor >= 0 && floor <= learning_rate,
            "plateau: .floor must be from 0 to .learning_rate");
    return std::max(learning_rate * detail::core::pow(factor, learned[0]), floor);
  }
  /// Counts an epoch that reports the loss; ignores other updates.
  void observe(const observation& seen) {
    const std::optional<double> loss = Loss::of(seen);
    if (!loss) return;
    auto& [reductions, best, bad, cooling] = learned;
    // A share of the best loss's magnitude: 1 - threshold times a negative loss would be larger.
    const double least = detail::core::isfinite(best) ? threshold * detail::core::abs(best) : 0;
    bad = *loss < best - least ? 0 : bad + 1;
    if (bad == 0) best = *loss;
    if (cooling > 0) {
      --cooling;
      bad = 0;
    }
    if (bad <= patience) return;
    ++reductions;
    bad = 0;
    cooling = cooldown;
  }
  /// `learned`.
  [[nodiscard]] std::span<double> state() { return learned; }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("from ", learning_rate, ", times ", factor, " after ", patience + 1,
                  " epochs without a ", Loss::name, " loss ", 100 * threshold,
                  " % below the best, not below ", floor,
                  cooldown > 0 ? concat(", and not within ", cooldown, " epochs of the last") : "");
  }
};

}  // namespace detail::schedule

/// Reduces the learning rate when the validation loss stops falling.
using plateau = detail::schedule::basic_plateau<detail::schedule::validation_loss>;
/// Reduces the learning rate when the epoch's training loss stops falling.
using training_plateau = detail::schedule::basic_plateau<detail::schedule::training_loss>;

}  // namespace cordee::inline CORDEE_ABI
