// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Polynomial decay.
//
//   lr(e) = end + (peak - end) (1 - min(e, E) / E)^power
//
// Power 2 is usual with LARS (You et al. 2017).
#pragma once

#include <algorithm>
#include <cmath>

#include <cordee/core/error.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

struct polynomial {
  double peak = 0.1;
  double epochs = 0;  // required: the length of the decay
  double power = 2;
  double end = 0;

  double operator()(double epoch) const {
    detail::schedule::expect_finite(
        "polynomial", {{".peak", peak}, {".epochs", epochs}, {".power", power}, {".end", end}});
    expects(epochs > 0, "polynomial: set .epochs, the length of the decay");
    expects(peak >= 0 && end >= 0 && power >= 0,
            "polynomial: .peak, .end and .power must be 0 or more");
    const double left = 1 - std::clamp(epoch, 0.0, epochs) / epochs;
    return end + (peak - end) * std::pow(left, power);
  }
  [[nodiscard]] double end_epoch() const { return epochs; }
  [[nodiscard]] std::string describe() const {
    return concat("polynomial from ", peak, " to ", end, " over ", epochs, " epochs, power ",
                  power);
  }
};

}  // namespace cordee::inline CORDEE_ABI
