// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A learning rate that falls by the same factor in each epoch, evaluated at each update.
//
//   lr(e) = learning_rate factor^e
//
// PyTorch's ExponentialLR, stepped once an epoch, has the same values at whole epochs.
#pragma once

#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// Exponential decay by the same factor each epoch.
struct exponential {
  /// Learning rate at epoch 0. Range: finite, 0 or more, else usage_error.
  double learning_rate = 0.1;
  /// Factor of the learning rate per epoch. Range: 0 < factor <= 1, else usage_error.
  double factor = 0.95;

  /// See Schedule.
  double operator()(double epoch) const {
    detail::schedule::expect_not_negative("exponential", {".learning_rate", learning_rate});
    expects(factor > 0 && factor <= 1, "exponential: .factor must be above 0 and at most 1");
    return learning_rate * detail::core::pow(factor, epoch);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("exponential from ", learning_rate, ", times ", factor, " an epoch");
  }
};

}  // namespace cordee::inline CORDEE_ABI
