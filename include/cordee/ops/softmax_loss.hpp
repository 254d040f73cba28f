// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Cross-entropy of a softmax with label smoothing (Szegedy et al., 2016), of one sample.
//
//   p = softmax(z),  t = (1 - eps) onehot(label) + eps / K,  loss = -sum(t log p),  dz = p - t
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <cordee/core/error.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Metrics as a device sums them, and the first sample whose label is outside the classes. The loss of such a sample and its gradient are NaN, so that the step is skipped, on all
/// ranks alike where gradients are averaged, before the error is thrown (checked_metrics).
struct metric_sums : metrics {
  std::int64_t bad_sample = 0;  // its index + 1; 0: none
  std::int64_t bad_label = 0;
};

[[noreturn]] inline void throw_bad_label(std::int64_t sample, std::int64_t label, int classes) {
  throw error(concat("softmax_loss: sample ", sample, " of the batch has label ", label,
                     ", but the network has classes 0 to ", classes - 1,
                     "; check the data set or the network's number of classes"));
}

constexpr bool is_class(int label, int classes) { return 0 <= label && label < classes; }

/// Whether class c ranks above the label: its logit is larger, or equal and its index smaller. A
/// NaN ranks above every other logit.
template <Number N>
constexpr bool ranks_above(const N* z, int c, int label) {
  const auto target = precision::widened(z[label]), other = precision::widened(z[c]);
  return c != label && !(target > other || (target == other && label < c));
}
/// The number of classes that rank above the label; a label whose logit is NaN ranks last.
template <Number N>
int label_rank(const N* z, int classes, int label) {
  if (std::isnan(precision::widened(z[label]))) return std::numeric_limits<int>::max();
  int above = 0;
  for (int c = 0; c < classes; ++c) above += ranks_above(z, c, label);
  return above;
}

/// The sums of one sample's logits that its loss and its gradient are computed from.
struct softmax_sums {
  double largest = 0;    // max z
  double sum = 0;        // sum of exp(z - largest)
  double deviation = 0;  // sum of z - largest

  [[nodiscard]] CORDEE_HOST_DEVICE double loss(double target, int classes, double smoothing) const {
    const double log_sum = std::log(sum), hard = log_sum - (target - largest);
    return smoothing == 0 ? hard
                          : (1 - smoothing) * hard + smoothing * (log_sum - deviation / classes);
  }
  [[nodiscard]] CORDEE_HOST_DEVICE double logit_gradient(double z, bool is_label, int classes,
                                                         double smoothing) const {
    return std::exp(z - largest) / sum - ((is_label ? 1 - smoothing : 0) + smoothing / classes);
  }
};

/// The sums as metrics. Throws cordee::error where a label was outside 0 .. classes-1.
inline metrics checked_metrics(const metric_sums& sums, int classes) {
  if (sums.bad_sample > 0) throw_bad_label(sums.bad_sample - 1, sums.bad_label, classes);
  return sums;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
