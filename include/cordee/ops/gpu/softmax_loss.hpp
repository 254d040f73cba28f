// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overload of the softmax loss (ops/cpu/softmax_loss.hpp): one block per sample, then one that
// adds the samples. Computed in double, as on the CPU: a thousand classes of a hundred samples are
// a thousandth of a step's time.
#pragma once

#include <limits>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/block_max.hpp>
#include <cordee/ops/softmax_loss.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct sample_metrics {
  double loss;
  int rank;
};

/// One sample's loss, rank and gradient.
template <Number N>
struct softmax_kernel {
  static constexpr int threads = 128;
  int classes;
  const N* logits;
  batch_targets targets;
  double smoothing, loss_weight;
  const float* scale;
  N* gradient;
  sample_metrics* per_sample;

  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(double); }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const N* const z = logits + b.index() * static_cast<std::size_t>(classes);
    const class_target target = targets[b.index()];
    const bool is_valid = target.is_valid(classes);
    const int label = target.main_label();

    double max_logit = -std::numeric_limits<double>::infinity();
    for (int c = b.thread(); c < classes; c += threads)
      if (static_cast<double>(precision::widened(z[c])) > max_logit)
        max_logit = static_cast<double>(precision::widened(z[c]));
    max_logit = block_max<threads>(b, max_logit);
    double sum = 0, shift_sum = 0, larger = 0;
    for (int c = b.thread(); c < classes; c += threads) {
      const double shifted = static_cast<double>(precision::widened(z[c])) - max_logit;
      sum += std::exp(shifted);
      shift_sum += shifted;
      larger += is_valid && ranks_above(z, c, label);
    }
    larger = b.sum(larger);
    const softmax_sums sums{is_valid ? max_logit : nan, b.sum(sum), b.sum(shift_sum)};

    if (b.thread() == 0) {
      const bool is_ranked = is_valid && !std::isnan(precision::widened(z[label]));
      const int rank = is_ranked ? static_cast<int>(larger) : std::numeric_limits<int>::max();
      const double target_logit = is_valid ? target.logit(z) : nan;
      per_sample[b.index()] = {sums.loss(target_logit, classes, smoothing), rank};
    }
    if (gradient == nullptr) return;
    N* const dz = gradient + (z - logits);
    const double weight =
        scale == nullptr ? loss_weight : loss_weight * static_cast<double>(*scale);
    for (int c = b.thread(); c < classes; c += threads)
      dz[c] = precision::rounded<N>(static_cast<precision::wide<N>>(
          weight * sums.logit_gradient(static_cast<double>(precision::widened(z[c])),
                                       target.share(c), classes, smoothing)));
  }
};

/// One block: the sums over the samples, in a fixed order.
struct metrics_kernel {
  static constexpr int threads = 256;
  int classes, samples;
  const sample_metrics* per_sample;
  batch_targets targets;
  metric_sums* out;

  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(double); }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    double loss = 0, top1 = 0, top5 = 0, first_invalid_seen = samples;
    for (int n = b.thread(); n < samples; n += threads) {
      loss += per_sample[n].loss;
      top1 += per_sample[n].rank < 1;
      top5 += per_sample[n].rank < 5;
      if (!targets[static_cast<std::size_t>(n)].is_valid(classes) && n < first_invalid_seen)
        first_invalid_seen = n;
    }
    loss = b.sum(loss);
    top1 = b.sum(top1);
    top5 = b.sum(top5);
    const int first_invalid = static_cast<int>(-block_max<threads>(b, -first_invalid_seen));
    if (b.thread() != 0) return;
    *out = {{loss, static_cast<std::int64_t>(top1), static_cast<std::int64_t>(top5), samples}};
    if (first_invalid < samples) {
      out->bad_sample = first_invalid + 1;
      out->bad_label = targets[static_cast<std::size_t>(first_invalid)].bad_label(classes);
    }
  }
};

/// *out, in device memory, is checked and turned into metrics on the host (`checked`).
/// `loss_weight` is multiplied by *scale, also in device memory, unless that is null.
template <Number N, GpuStream S>
void softmax_loss(int classes, int samples, const N* logits, const batch_targets& targets,
                  double smoothing, double loss_weight, const float* scale, N* gradient,
                  metric_sums* out, S s) {
  const auto n = static_cast<std::size_t>(samples);
  const device::stream_buffer<sample_metrics, S> per_sample(s, n);
  s.launch_kernel(n, softmax_kernel<N>{classes, logits, targets, smoothing, loss_weight, scale,
                                       gradient, per_sample.data()});
  s.launch_kernel(1, metrics_kernel{classes, samples, per_sample.data(), targets, out});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
