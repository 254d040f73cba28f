// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Cross-entropy of a softmax with label smoothing (Szegedy et al., 2016), of one sample.
//
//   p = softmax(z),  t = (1 - eps) y + eps / K,  loss = -sum(t log p),  dz = p - t
//
// Smoothing the two labels of a mixed sample before or after mixing gives the same targets.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>
#include <cordee/core/divisor.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI {

/// The default loss; equation and source are at the header's top.
struct cross_entropy {
  /// Label smoothing: share eps of each target that is spread over all classes, only in training.
  /// Range: 0 <= label_smoothing <= 1, else usage_error.
  double label_smoothing = 0;

  /// The loss of one sample.
  struct sample_loss {
    double value;               ///< The loss.
    double largest;             ///< The largest logit.
    detail::core::divisor sum;  ///< Of exp(z - largest), over the classes.
    double on, off;             ///< t = on y + off.

    /// Returns dz for a logit z of target y.
    [[nodiscard]] CORDEE_HOST_DEVICE double gradient(double z, double y) const {
      return probability(z) - (on * y + off);
    }
    /// Returns p for a logit z.
    [[nodiscard]] CORDEE_HOST_DEVICE double probability(double z) const {
      return sum.quotient(detail::core::exp(z - largest));
    }
  };
  /// Evaluates a sample; see Loss.
  template <class Sample>
  CORDEE_HOST_DEVICE sample_loss operator()(const Sample& s) const {
    const double largest = s.max_logit(), classes = s.classes(), eps = label_smoothing;
    const double sum =
        s.sum([largest](double z, double) { return detail::core::exp(z - largest); });
    const double log_sum = detail::core::log(sum), hard = log_sum - (s.target_logit() - largest);
    if (eps == 0) return {hard, largest, detail::core::divisor(sum), 1, 0};
    const double deviation = s.sum([largest](double z, double) { return z - largest; });
    return {(1 - eps) * hard + eps * (log_sum - deviation / classes), largest,
            detail::core::divisor(sum), 1 - eps, eps / classes};
  }

  /// Returns the loss without smoothing, which evaluation reports.
  [[nodiscard]] constexpr cross_entropy in_evaluation() const { return {}; }
  /// Checks the options.
  /// @throws usage_error for one out of its range.
  void check() const {
    expects(label_smoothing >= 0 && label_smoothing <= 1,
            "cross_entropy: .label_smoothing is within 0 .. 1");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("cross-entropy, label smoothing ", label_smoothing);
  }
  bool operator==(const cross_entropy&) const = default;
};

}  // namespace cordee::inline CORDEE_ABI
