// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A learning rate that is multiplied by a factor at each milestone.
//
//   lr(e) = learning_rate factor^(number of milestones <= e)
//
// He et al. 2015 and Goyal et al. 2017: a tenth at epochs 30, 60 and 80 of 90.
#pragma once

#include <array>

#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// Step decay: constant between milestones.
struct multistep {
  /// Learning rate before the first milestone. Range: finite, 0 or more, else usage_error.
  double learning_rate = 0.1;
  /// Epochs at which the learning rate is multiplied by `factor`. Unit: epochs. Range: finite, 0
  /// or more, else usage_error.
  /// At most eight, in any order; zeros are unused elements, so that {30, 60, 80} needs no count.
  std::array<double, 8> milestones{};
  /// Factor at each milestone. Range: finite, 0 or more, else usage_error. Default: as He et al.
  /// 2015.
  double factor = 0.1;

  /// At a milestone's epoch the new learning rate already applies.
  constexpr double operator()(double epoch) const {
    detail::schedule::expect_not_negative("multistep", {".learning_rate", learning_rate});
    detail::schedule::expect_not_negative("multistep", {".factor", factor});
    double result = learning_rate;
    for (const double m : milestones) {
      detail::schedule::expect_not_negative("multistep", {"a milestone", m});
      if (m > 0 && m <= epoch) result *= factor;
    }
    return result;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    std::string epochs;
    for (const double m : milestones)
      if (m > 0) epochs += concat(epochs.empty() ? "" : ", ", m);
    return epochs.empty() ? concat("constant ", learning_rate)
                          : concat(learning_rate, ", times ", factor, " at epochs ", epochs);
  }
};

}  // namespace cordee::inline CORDEE_ABI
