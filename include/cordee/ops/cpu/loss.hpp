// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A loss (nn/loss.hpp) over a batch, on one thread: it takes a thousandth of a network's time, and
// the sums keep the order of the samples.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/config.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/loss.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The arguments of a loss for one sample (nn/loss.hpp).
template <Number N>
struct loss_sample {
  const N* z;  // (classes)
  class_target target;
  int count;

  [[nodiscard]] constexpr int classes() const { return count; }
  [[nodiscard]] constexpr double max_logit() const {
    double largest = logit(0);
    for (int c = 1; c < count; ++c)
      if (logit(c) > largest) largest = logit(c);
    return largest;
  }
  [[nodiscard]] constexpr double target_logit() const { return target.logit(z); }
  template <class F>
  [[nodiscard]] constexpr double sum(const F& f) const {
    double total = 0;
    for (int c = 0; c < count; ++c) total += f(logit(c), target.share(c));
    return total;
  }
  [[nodiscard]] constexpr double logit(int c) const {
    return static_cast<double>(precision::widened(z[c]));
  }
};

/// Returns the metrics, summed over the samples. Where `gradient` is not null, writes loss_weight
/// times the gradient of each sample's loss (batch::loss_weight(): ranks / global samples).
template <Number N, class Loss>
metric_sums batch_loss(const Loss& loss, int classes, int samples,
                       const N* logits,  // (samples, classes)
                       const batch_targets& targets, double loss_weight,
                       N* gradient,  // (samples, classes)
                       cpu::stream) {
  metric_sums total;
  for (int n = 0; n < samples; ++n) {
    const std::size_t first = static_cast<std::size_t>(n) * static_cast<std::size_t>(classes);
    const loss_sample<N> sample{logits + first, targets[static_cast<std::size_t>(n)], classes};
    ++total.count;
    if (!sample.target.is_valid(classes)) {
      constexpr double nan = core::limits<double>::quiet_NaN();
      if (total.bad_sample == 0)
        total.bad_sample = n + 1, total.bad_label = sample.target.bad_label(classes);
      total.loss = nan;
      if (gradient != nullptr)
        std::fill_n(gradient + first, classes,
                    precision::rounded<N>(static_cast<precision::wide<N>>(nan)));
      continue;
    }
    const auto evaluated = loss(sample);
    total.loss += evaluated.value;
    const int rank = label_rank(sample.z, classes, sample.target.main_label());
    total.top1 += rank < 1;
    total.top5 += rank < 5;
    if (gradient == nullptr) continue;
    for (int c = 0; c < classes; ++c)
      gradient[first + static_cast<std::size_t>(c)] =
          precision::rounded<N>(static_cast<precision::wide<N>>(
              loss_weight * evaluated.gradient(sample.logit(c), sample.target.share(c))));
  }
  return total;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
