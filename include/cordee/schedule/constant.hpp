// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The same learning rate in the whole run.
//
//   lr(e) = learning_rate
#pragma once

#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// A schedule that does not change.
struct constant {
  /// The learning rate of all updates. Range: finite, 0 or more, else usage_error (negative: error,
  /// from the trainer).
  double learning_rate = 0.1;

  /// The same at every epoch.
  constexpr double operator()(double) const {
    if (!detail::core::isfinite(learning_rate))
      detail::schedule::refuse("constant", {".learning_rate", learning_rate});
    return learning_rate;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return concat("constant ", learning_rate); }
};

}  // namespace cordee::inline CORDEE_ABI
