// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Half a cosine, without restarts (Loshchilov and Hutter 2016).
//
//   lr(e) = floor + (peak - floor) (1 + cos(pi min(e, E) / E)) / 2
#pragma once

#include <numbers>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// Cosine decay, without restarts.
struct cosine {
  double peak = 0.1;  ///< Learning rate at epoch 0. Range: finite, 0 or more, else usage_error.
  /// Length of the decay; required. Unit: epochs. Range: finite, above 0, else usage_error.
  double epochs = 0;
  /// Learning rate at the end of the decay. Range: finite, 0 or more, else usage_error.
  double floor = 0;

  /// `floor` from `epochs` on.
  double operator()(double epoch) const {
    detail::schedule::expect_finite("cosine",
                                    {{".peak", peak}, {".epochs", epochs}, {".floor", floor}});
    expects(epochs > 0, "cosine: set .epochs, the length of the decay");
    expects(peak >= 0 && floor >= 0, "cosine: .peak and .floor must be 0 or more");
    const double angle = std::numbers::pi * std::clamp(epoch, 0.0, epochs) / epochs;
    return floor + (peak - floor) * (1 + detail::core::cos(angle)) / 2;
  }
  /// `epochs`.
  [[nodiscard]] double end_epoch() const { return epochs; }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("cosine from ", peak, " to ", floor, " over ", epochs, " epochs");
  }
};

}  // namespace cordee::inline CORDEE_ABI
