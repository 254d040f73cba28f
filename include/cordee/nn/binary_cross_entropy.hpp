// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Binary cross-entropy of each class's sigmoid, averaged over classes (Wightman, Touvron and Jégou,
// 2021, "ResNet strikes back"; PyTorch's binary_cross_entropy_with_logits).
//
//   t = (1 - eps) y + eps / K,   or with a threshold, 1 if that is above it, else 0
//   loss = 1/K sum(max(z, 0) - t z + log(1 + exp(-|z|))),   dz = (sigmoid(z) - t) / K
//
// With a threshold both labels of a mixed sample are present. The gradient is about K times smaller
// than cross_entropy's: the paper trains by LAMB, whose steps do not depend on that.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI {

/// Independent loss of each class, as for mixed samples; equation and source are at the header's
/// top.
struct binary_cross_entropy {
  /// Label smoothing: share eps of each target that is spread over all classes, only in training.
  /// Range: 0 <= label_smoothing <= 1, else usage_error.
  double label_smoothing = 0;
  /// Smoothed targets above it become 1, others 0, only in training; 0 leaves them unchanged, and
  /// the paper uses 0.2. Range: 0 <= target_threshold < 1, else usage_error.
  double target_threshold = 0;

  /// The loss of one sample.
  struct sample_loss {
    double value;                        ///< The loss.
    double on, off, threshold, classes;  ///< t = on y + off before the threshold; K.

    /// Returns t for a target y.
    [[nodiscard]] CORDEE_HOST_DEVICE double target(double y) const {
      const double t = on * y + off;
      return threshold > 0 ? (t > threshold ? 1 : 0) : t;
    }
    /// Returns dz for a logit z of target y.
    [[nodiscard]] CORDEE_HOST_DEVICE double gradient(double z, double y) const {
      return (probability(z) - target(y)) / classes;
    }
    /// The logit's sigmoid.
    [[nodiscard]] CORDEE_HOST_DEVICE static double probability(double z) {
      const double e = detail::core::exp(-detail::core::abs(z));
      return (z < 0 ? e : 1) / (1 + e);
    }
  };
  /// Evaluates a sample; see Loss.
  template <class Sample>
  CORDEE_HOST_DEVICE sample_loss operator()(const Sample& s) const {
    const double classes = s.classes();
    sample_loss l{0, 1 - label_smoothing, label_smoothing / classes, target_threshold, classes};
    l.value = s.sum([l](double z, double y) {
      const double larger = z < 0 ? 0 : z;  // of z and 0; NaN stays
      return larger - z * l.target(y) +
             detail::core::log1p(detail::core::exp(-detail::core::abs(z)));
    }) / classes;
    return l;
  }

  /// Returns the loss without smoothing and threshold, which evaluation reports.
  [[nodiscard]] constexpr binary_cross_entropy in_evaluation() const { return {}; }
  /// Checks the options.
  /// @throws usage_error for one out of its range.
  void check() const {
    expects(label_smoothing >= 0 && label_smoothing <= 1,
            "binary_cross_entropy: .label_smoothing is within 0 .. 1");
    expects(target_threshold >= 0 && target_threshold < 1,
            "binary_cross_entropy: .target_threshold is 0, for none, or below 1");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("binary cross-entropy of each class, label smoothing ", label_smoothing,
                  target_threshold > 0 ? concat(", targets above ", target_threshold, " are 1")
                                       : std::string());
  }
  bool operator==(const binary_cross_entropy&) const = default;
};

}  // namespace cordee::inline CORDEE_ABI
