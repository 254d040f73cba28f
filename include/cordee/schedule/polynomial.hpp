// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Polynomial decay.
//
//   lr(e) = end + (peak - end) (1 - min(e, E) / E)^power
//
// Power 2 is usual with LARS (You et al. 2017).
#pragma once

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// Polynomial decay: a power of the remaining fraction of the epochs.
struct polynomial {
  double peak = 0.1;  ///< Learning rate at epoch 0. Range: finite, 0 or more, else usage_error.
  /// Length of the decay; required. Unit: epochs. Range: finite, above 0, else usage_error.
  double epochs = 0;
  /// The exponent; 1: linear decay. Range: finite, 0 or more, else usage_error.
  /// Default: as You et al. 2017.
  double power = 2;
  /// Learning rate at the end of the decay. Range: finite, 0 or more, else usage_error.
  double end = 0;

  /// `end` from `epochs` on.
  double operator()(double epoch) const {
    detail::schedule::expect_finite(
        "polynomial", {{".peak", peak}, {".epochs", epochs}, {".power", power}, {".end", end}});
    expects(epochs > 0, "polynomial: set .epochs, the length of the decay");
    expects(peak >= 0 && end >= 0 && power >= 0,
            "polynomial: .peak, .end and .power must be 0 or more");
    const double left = 1 - std::clamp(epoch, 0.0, epochs) / epochs;
    return end + (peak - end) * detail::core::pow(left, power);
  }
  /// `epochs`.
  [[nodiscard]] double end_epoch() const { return epochs; }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("polynomial from ", peak, " to ", end, " over ", epochs, " epochs, power ",
                  power);
  }
};

}  // namespace cordee::inline CORDEE_ABI
