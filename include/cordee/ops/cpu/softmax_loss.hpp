// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The cross-entropy of ops/softmax_loss.hpp over a batch, on one thread: it takes a thousandth of a
// network's time, and the sums keep the order of the samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/softmax_loss.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Returns the metrics, summed over the samples. Where `gradient` is not null, writes loss_weight
/// times the gradient of each sample's loss (batch::loss_weight(): ranks / global samples).
template <Number N>
metric_sums softmax_loss(int classes, int samples,
                         const N* logits,  // (samples, classes)
                         const batch_targets& targets, double smoothing, double loss_weight,
                         N* gradient,  // (samples, classes)
                         cpu::stream) {
  metric_sums total;
  for (int n = 0; n < samples; ++n) {
    const class_target target = targets[static_cast<std::size_t>(n)];
    const N* z = logits + static_cast<std::size_t>(n) * static_cast<std::size_t>(classes);
    if (!target.is_valid(classes)) {
      constexpr double nan = std::numeric_limits<double>::quiet_NaN();
      if (total.bad_sample == 0)
        total.bad_sample = n + 1, total.bad_label = target.bad_label(classes);
      total.loss = nan;
      ++total.count;
      if (gradient != nullptr)
        std::fill_n(gradient + (z - logits), classes,
                    precision::rounded<N>(static_cast<precision::wide<N>>(nan)));
      continue;
    }
    softmax_sums sums;
    sums.largest = static_cast<double>(precision::widened(z[0]));
    for (int c = 1; c < classes; ++c) {
      const auto candidate = static_cast<double>(precision::widened(z[c]));
      if (candidate > sums.largest) sums.largest = candidate;
    }
    for (int c = 0; c < classes; ++c) {
      const double below = static_cast<double>(precision::widened(z[c])) - sums.largest;
      sums.sum += std::exp(below);
      sums.deviation += below;
    }
    total.loss += sums.loss(target.logit(z), classes, smoothing);
    const int rank = label_rank(z, classes, target.main_label());
    total.top1 += rank < 1;
    total.top5 += rank < 5;
    ++total.count;
    if (gradient == nullptr) continue;
    N* dz = gradient + (z - logits);
    for (int c = 0; c < classes; ++c)
      dz[c] = precision::rounded<N>(static_cast<precision::wide<N>>(
          loss_weight * sums.logit_gradient(static_cast<double>(precision::widened(z[c])),
                                            target.share(c), classes, smoothing)));
  }
  return total;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
