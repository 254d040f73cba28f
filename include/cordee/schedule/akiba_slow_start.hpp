// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The slow start of Akiba, Suzuki and Fukuda 2017: half the learning rate of the linear scaling
// rule for 40 epochs in place of a warm-up, and an earlier decay.
//
//   lr(e) = learning_rate {0.5, 0.075, 0.01, 0.001}   from epochs 0, 40, 70, 85 on
//
// `learning_rate` is the rule's, 0.1 for 256 samples: linear_scaled{akiba_slow_start{}, 256,
// batch}. The paper's runs have 90 epochs, and warm up by RMSprop in place of the learning rate.
#pragma once

#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

struct akiba_slow_start {
  double learning_rate = 0.1;

  constexpr double operator()(double epoch) const {
    detail::schedule::expect_finite("akiba_slow_start", {{".learning_rate", learning_rate}});
    return learning_rate * (epoch < 40 ? 0.5 : epoch < 70 ? 0.075 : epoch < 85 ? 0.01 : 0.001);
  }
  [[nodiscard]] std::string describe() const {
    return concat("Akiba's slow start: ", learning_rate,
                  " times 0.5, 0.075, 0.01, 0.001 from epochs 0, 40, 70, 85 on");
  }
};

}  // namespace cordee::inline CORDEE_ABI
