// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The same learning rate throughout the run.
//
//   lr(e) = learning_rate
#pragma once

#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// A constant learning rate.
struct constant {
  /// The learning rate of all updates. Range: finite, 0 or more, else usage_error.
  double learning_rate = 0.1;

  /// The same at every epoch.
  constexpr double operator()(double) const {
    detail::schedule::expect_not_negative("constant", {".learning_rate", learning_rate});
    return learning_rate;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return concat("constant ", learning_rate); }
};

}  // namespace cordee::inline CORDEE_ABI
