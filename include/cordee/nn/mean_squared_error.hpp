// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Mean squared error of the logits against the one-hot or mixed target (Hui and Belkin, 2021).
//
//   loss = 1/K sum((z - y)^2),   dz = 2 (z - y) / K
#pragma once

#include <string>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// Squared error of the logits, for comparison; equation and source are at the header's top.
struct mean_squared_error {
  /// The loss of one sample.
  struct sample_loss {
    double value, classes;  ///< The loss; K.

    /// Returns dz for a logit z of target y.
    [[nodiscard]] CORDEE_HOST_DEVICE double gradient(double z, double y) const {
      return 2 * (z - y) / classes;
    }
    /// The logit, which estimates the target; NaN is returned as NaN.
    [[nodiscard]] static double probability(double z) { return z < 0 ? 0 : z > 1 ? 1 : z; }
  };
  /// Evaluates a sample; see Loss.
  template <class Sample>
  CORDEE_HOST_DEVICE sample_loss operator()(const Sample& s) const {
    const double classes = s.classes();
    return {s.sum([](double z, double y) { return (z - y) * (z - y); }) / classes, classes};
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "mean squared error of the logits"; }
  bool operator==(const mean_squared_error&) const = default;
};

}  // namespace cordee::inline CORDEE_ABI
