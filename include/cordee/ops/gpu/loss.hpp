// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overload of the loss over a batch (ops/cpu/loss.hpp): one block per sample, then one that
// adds the samples. Computed in double, as on the CPU: a thousand classes of a hundred samples are
// a thousandth of a step's time.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/block_max.hpp>
#include <cordee/ops/loss.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct sample_metrics {
  double loss;
  int rank;
};

/// The arguments of a loss for one sample (nn/loss.hpp), by the threads of a block; sums and the
/// maximum are collective.
template <Number N, int Threads, class Block>
struct block_loss_sample {
  Block& block;
  const N* z;  // (classes)
  class_target target;
  int count;

  [[nodiscard]] CORDEE_DEVICE int classes() const { return count; }
  [[nodiscard]] CORDEE_DEVICE double max_logit() const {
    double own = -std::numeric_limits<double>::infinity();
    for (int c = block.thread(); c < count; c += Threads)
      if (logit(c) > own) own = logit(c);
    return block_max<Threads>(block, own);
  }
  [[nodiscard]] CORDEE_DEVICE double target_logit() const { return target.logit(z); }
  template <class F>
  [[nodiscard]] CORDEE_DEVICE double sum(const F& f) const {
    double own = 0;
    for (int c = block.thread(); c < count; c += Threads) own += f(logit(c), target.share(c));
    return block.sum(own);
  }
  [[nodiscard]] CORDEE_DEVICE double logit(int c) const {
    return static_cast<double>(precision::widened(z[c]));
  }
};

/// One sample's loss, rank and gradient.
template <Number N, class Loss>
struct loss_kernel {
  static constexpr int threads = 128;
  Loss loss;
  int classes;
  const N* logits;
  batch_targets targets;
  double loss_weight;
  const float* scale;
  N* gradient;
  sample_metrics* per_sample;

  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(double); }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    constexpr int last = std::numeric_limits<int>::max();
    const std::size_t first = b.index() * static_cast<std::size_t>(classes);
    const block_loss_sample<N, threads, Block> sample{b, logits + first, targets[b.index()],
                                                      classes};
    N* const dz = gradient == nullptr ? nullptr : gradient + first;
    const auto write = [&](int c, double g) {
      dz[c] = precision::rounded<N>(static_cast<precision::wide<N>>(g));
    };
    if (!sample.target.is_valid(classes)) {  // alike for all threads
      if (b.thread() == 0) per_sample[b.index()] = {nan, last};
      for (int c = b.thread(); dz != nullptr && c < classes; c += threads) write(c, nan);
      return;
    }
    const auto evaluated = loss(sample);
    const int label = sample.target.main_label();
    double larger = 0;
    for (int c = b.thread(); c < classes; c += threads) larger += ranks_above(sample.z, c, label);
    larger = b.sum(larger);
    if (b.thread() == 0)
      per_sample[b.index()] = {evaluated.value, std::isnan(precision::widened(sample.z[label]))
                                                    ? last
                                                    : static_cast<int>(larger)};
    if (dz == nullptr) return;
    const double weight =
        scale == nullptr ? loss_weight : loss_weight * static_cast<double>(*scale);
    for (int c = b.thread(); c < classes; c += threads)
      write(c, weight * evaluated.gradient(sample.logit(c), sample.target.share(c)));
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

/// *out, in device memory, becomes metrics on the host (checked_metrics). `loss_weight` is
/// multiplied by *scale, also in device memory, unless that is null.
template <Number N, class Loss, GpuStream S>
void batch_loss(const Loss& loss, int classes, int samples, const N* logits,
                const batch_targets& targets, double loss_weight, const float* scale, N* gradient,
                metric_sums* out, S s) {
  const auto n = static_cast<std::size_t>(samples);
  const device::stream_buffer<sample_metrics, S> per_sample(s, n);
  s.launch_kernel(n, loss_kernel<N, Loss>{loss, classes, logits, targets, loss_weight, scale,
                                          gradient, per_sample.data()});
  s.launch_kernel(1, metrics_kernel{classes, samples, per_sample.data(), targets, out});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
