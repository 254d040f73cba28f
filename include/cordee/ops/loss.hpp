// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What passes of a loss share: targets, ranks of a label's logit, metrics as a device sums them.
//
// The target y of a sample is onehot(label), or w onehot(label) + (1 - w) onehot(other label) of
// one that was mixed of two. The losses are policies (nn/loss.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Metrics as a device sums them, and the first sample with a label outside the classes. The loss
/// of such a sample and its gradient are NaN, so that the step is skipped, on all ranks alike where
/// gradients are averaged, before the error is thrown (checked_metrics).
struct metric_sums : metrics {
  std::int64_t bad_sample = 0;  // its index + 1; 0: none
  std::int64_t bad_label = 0;
};

[[noreturn]] inline void throw_bad_label(std::int64_t sample, std::int64_t label, int classes) {
  throw error(concat("loss: sample ", sample, " of the batch has label ", label,
                     ", but the network has classes 0 to ", classes - 1,
                     "; check the data set or the network's number of classes"));
}

constexpr bool is_class(int label, int classes) { return 0 <= label && label < classes; }

/// The target of one sample. `weight` is 1 unless the sample was mixed of two.
struct class_target {
  int label = 0, other_label = 0;
  double weight = 1;

  /// y of class c.
  [[nodiscard]] constexpr double share(int c) const {
    return (c == label ? weight : 0) + (c == other_label ? 1 - weight : 0);
  }
  /// The label that metrics count: that of the larger weight.
  [[nodiscard]] constexpr int main_label() const { return weight < 0.5 ? other_label : label; }
  [[nodiscard]] constexpr bool is_valid(int classes) const {
    return is_class(label, classes) && is_class(other_label, classes);
  }
  /// The label outside the classes. Requires !is_valid(classes).
  [[nodiscard]] constexpr int bad_label(int classes) const {
    return is_class(label, classes) ? other_label : label;
  }
  /// sum(y z). Requires is_valid(classes).
  template <Number N>
  [[nodiscard]] constexpr double logit(const N* z) const {
    const auto first = static_cast<double>(precision::widened(z[label]));
    if (weight == 1) return first;
    return weight * first + (1 - weight) * static_cast<double>(precision::widened(z[other_label]));
  }
};

/// The labels of a batch, as kernels read them. `other_labels` and `weights` are null unless
/// samples were mixed.
struct batch_targets {
  const std::int32_t* labels = nullptr;        // (samples)
  const std::int32_t* other_labels = nullptr;  // (samples)
  const float* weights = nullptr;              // (samples)

  [[nodiscard]] constexpr class_target operator[](std::size_t n) const {
    if (weights == nullptr) return {labels[n], labels[n], 1};
    return {labels[n], other_labels[n], static_cast<double>(weights[n])};
  }
};
template <class D>
constexpr batch_targets targets_of(const batch<D>& b) {
  return {b.labels.data, b.other_labels.data, b.label_weights.data};
}

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
  if (core::isnan(precision::widened(z[label]))) return core::limits<int>::max();
  int above = 0;
  for (int c = 0; c < classes; ++c) above += ranks_above(z, c, label);
  return above;
}

/// The sums as metrics. Throws cordee::error where a label was outside 0 .. classes-1.
inline metrics checked_metrics(const metric_sums& sums, int classes) {
  if (sums.bad_sample > 0) throw_bad_label(sums.bad_sample - 1, sums.bad_label, classes);
  return sums;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
