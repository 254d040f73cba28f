// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The same learning rate in the whole run: lr(e) = learning_rate.
#pragma once

#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

struct constant {
  double learning_rate = 0.1;

  constexpr double operator()(double) const {
    detail::schedule::expect_finite("constant", {{".learning_rate", learning_rate}});
    return learning_rate;
  }
  [[nodiscard]] std::string describe() const { return concat("constant ", learning_rate); }
};

}  // namespace cordee::inline CORDEE_ABI
