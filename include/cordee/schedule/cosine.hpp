// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Half a cosine, without restarts (Loshchilov and Hutter 2016).
//
//   rate(e) = floor + (peak - floor) (1 + cos(pi min(e, E) / E)) / 2
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include <cordee/core/error.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

struct cosine {
  double peak = 0.1;
  double epochs = 0;  // no default: the length of the run is the user's to say
  double floor = 0;

  double operator()(double epoch) const {
    expects(epochs > 0, "cosine: say over how many .epochs the rate falls");
    const double turn = std::numbers::pi * std::clamp(epoch, 0.0, epochs) / epochs;
    return floor + (peak - floor) * (1 + std::cos(turn)) / 2;
  }
  [[nodiscard]] double ends() const { return epochs; }
  [[nodiscard]] std::string describe() const {
    return text("cosine from ", peak, " to ", floor, " over ", epochs, " epochs");
  }
};

}  // namespace cordee::inline CORDEE_ABI
