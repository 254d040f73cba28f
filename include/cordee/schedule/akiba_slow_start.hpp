// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The slow start of Akiba, Suzuki and Fukuda 2017: half the learning rate of the linear scaling
// rule for 40 epochs instead of a warm-up, and an earlier decay.
//
//   lr(e) = learning_rate {0.5, 0.075, 0.01, 0.001}   from epochs 0, 40, 70, 85 on
//
// The paper's runs have 90 epochs, and warm up by RMSprop instead of the learning rate.
#pragma once

#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// Slow start: half the learning rate for 40 epochs, then three drops down to a thousandth.
struct akiba_slow_start {
  /// Learning rate given by the linear scaling rule. Range: finite, 0 or more, else usage_error.
  /// Default: for 256 samples, so write `linear_scaled{akiba_slow_start{}, 256, batch}`.
  double learning_rate = 0.1;

  /// See Schedule.
  constexpr double operator()(double epoch) const {
    detail::schedule::expect_not_negative("akiba_slow_start", {".learning_rate", learning_rate});
    return learning_rate * (epoch < 40 ? 0.5 : epoch < 70 ? 0.075 : epoch < 85 ? 0.01 : 0.001);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("Akiba's slow start: ", learning_rate,
                  " times 0.5, 0.075, 0.01, 0.001 from epochs 0, 40, 70, 85 on");
  }
};

}  // namespace cordee::inline CORDEE_ABI
