// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Types of one training step that comm, optim, nn, data and train share, since those folders do not
// include one another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/config.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/span_on.hpp>

namespace cordee::inline CORDEE_ABI {

/// How far the ranks agree after an exchange, weakest first.
enum class agreement {
  loose,   ///< A stateful or asynchronous exchange.
  mixing,  ///< x <- W x with a doubly stochastic matrix W, without state.
  exact    ///< Every rank holds the same vector, a mean or not.
};

/// When an optimizer needs the norms of every segment.
enum class norms_needed {
  never,           ///< The view's norms must not be read.
  before_propose,  ///< In `propose`: of the weights and of this rank's gradient.
  before_accept    ///< In `accept`, of exact optimizers: of the weights and of the mean gradient.
};

/// What a forward pass is for.
enum class phase {
  train,    ///< A backward pass may follow; batch norm uses the batch's statistics.
  evaluate  ///< Batch norm uses the running statistics.
};
/// What a pass does with the numbers already at its output.
enum class write_mode {
  overwrite,  ///< Replaces them.
  add         ///< Adds to them, as for gradients of several micro-batches.
};

/// The position in training.
struct step_info {
  /// Earlier steps: all (`step`), those whose update was applied, not skipped (`applied`), and
  /// those that exchanged something (`round`).
  std::int64_t step = 0, applied = 0, round = 0;
  /// Epochs of data before this step (`epoch`), its learning rate, and the last applied step's
  /// (`previous_learning_rate`; 0 before the first).
  double epoch = 0, learning_rate = 0, previous_learning_rate = 0;
};

/// One bucket for a reducer.
template <class Real, class D, int Slots>
struct bucket_view {
  const bucket* layout = nullptr;  ///< Its segments and offset in the planes.
  span_on<Real, D> values;         ///< Numbers to exchange in place.
  /// The same range of the reducer's own planes.
  std::array<span_on<Real, D>, static_cast<std::size_t>(Slots)> slots{};
  span_on<std::byte, D> scratch;  ///< As many bytes as the reducer's scratch() returned.
  /// Whether the optimizer needs the exact mean of these numbers, which `two_stage` then takes.
  bool exact = false;
};

/// A bucket, or all trainable segments, for an optimizer: the same range of every plane. Offsets of
/// segments are the arena's; the spans begin at the first segment's offset.
template <class Real, class D, int Slots>
struct optimizer_view {
  span_on<Real, D> weights, grads;  ///< Master weights (`weights`) and gradient (`grads`).
  /// The optimizer's state.
  std::array<span_on<Real, D>, static_cast<std::size_t>(Slots)> slots{};
  std::span<const segment> segments;                ///< The table's entries in the range.
  span_on<const double, D> squared_weight_norms{};  ///< (segments), filled as O::norms requires.
  span_on<double, D> squared_grad_norms{};          ///< Likewise; `clip` rescales them.
  /// (1), squared norm of the whole gradient: of the reduced mean in `accept`, for an optimizer
  /// that needs an exact mean; else of this rank's gradient, in `accept` and in the `propose` of an
  /// optimizer that is not eager.
  span_on<const double, D> squared_global_norm{};
  span_on<double, D> sums{};           ///< (segments), scratch memory for the optimizer.
  bool finite = true;                  ///< False: the local gradient must not be applied.
  span_on<const step_info, D> info{};  ///< (1), for kernels.
  /// (segments, O::segment_numbers): state of a segment, beside the slots.
  span_on<double, D> numbers{};
};

namespace detail::core {

/// The address from which kernels of an optimizer read `info`: on a GPU the trainer's device copy,
/// so that launches in a replayed graph read the current step.
template <class Real, class D, int Slots>
constexpr const step_info* step_info_of(const optimizer_view<Real, D, Slots>& v,
                                        const step_info& info) {
  if constexpr (D::host_memory)
    return &info;  // kernels are done when the call returns
  else
    return v.info.data;
}

}  // namespace detail::core

/// The momentum with which an optimizer propagates the disagreement between ranks; wrappers forward
/// it.
struct momentum_form {
  double momentum = 0;    ///< Decay rate of the velocity; 0: no momentum.
  bool nesterov = false;  ///< Whether it is Nesterov momentum.
  /// Whether the momentum is read from a running average of mixed displacements.
  bool quasi_global = false;
  double smoothing = 0;  ///< Decay rate of that average.
};
namespace detail::core {
/// A spectral radius above this counts as 1: rounding may raise a stable one to it.
inline constexpr double largest_stable_radius = 1 - 1e-12;
}  // namespace detail::core

/// Converts bytes to numbers: (byte / 255 - mean) * scale for each channel; scale is 1 / deviation.
struct normalization {
  std::array<float, 4> mean{};             ///< Mean of each channel, for bytes divided by 255.
  std::array<float, 4> scale{1, 1, 1, 1};  ///< 1 / standard deviation of each channel, likewise.

  bool operator==(const normalization&) const = default;
};

/// One micro-batch of this rank.
template <class D>
struct batch {
  span_on<const std::uint8_t, D> pixels{};  ///< (count, channels, height, width)
  /// (count), 0 .. classes - 1, else error when the metrics are read.
  span_on<const std::int32_t, D> labels{};
  int count = 0;  ///< Samples of this micro-batch; may be 0.
  /// Samples of the whole update, over all ranks and micro-batches.
  std::int64_t global_samples = 0;
  int ranks = 1;                          ///< Ranks that share the update.
  cordee::normalization normalization{};  ///< How the network converts the bytes.
  double loss_scale = 1;                  ///< Loss scale, against underflow; set by the trainer.
  double epoch = 0;                       ///< Epoch at which the update begins; set by the trainer.
  span_on<const float, D> device_loss_scale{};  ///< (1), for kernels of a replayed graph; or empty.
  /// (count) or empty: second labels of mixed samples, whose target is
  /// weight * label + (1 - weight) * other label.
  span_on<const std::int32_t, D> other_labels{};
  span_on<const float, D> label_weights{};  ///< (count), 0 .. 1, or empty: their weights.
  /// Index of the first sample in the update, on which random numbers of a forward pass depend.
  std::int64_t first_sample = 0;
  std::uint64_t seed = 0;  ///< Seed of those random numbers; set by the trainer.
  /// (1), for kernels of a replayed graph; empty: step 0. Set by the trainer.
  span_on<const step_info, D> info{};

  bool operator==(const batch&) const = default;
  /// Returns the factor of each sample's loss in backward, loss_scale * ranks / global_samples.
  /// With it, the mean of the gradients over ranks is the scaled gradient of the mean loss over all
  /// samples of the update, however they are distributed.
  [[nodiscard]] constexpr double loss_weight() const { return loss_scale * unscaled_loss_weight(); }
  /// Returns `loss_weight` without the loss scale: ranks / global_samples.
  [[nodiscard]] constexpr double unscaled_loss_weight() const {
    return static_cast<double>(ranks) / static_cast<double>(global_samples);
  }
};

/// One micro-batch of this rank for a model of data of your own: what the trainer needs to know,
/// and the data. Pixels and labels are empty.
template <class Data, class D>
struct data_batch : batch<D> {
  const Data* data = nullptr;  ///< The samples, in the model's form.
  std::int64_t step = 0;       ///< Earlier steps; set by the trainer.
};

/// Sums over samples, so that metrics of micro-batches and ranks add up. A mixed sample counts as
/// correct if the label with the larger weight is predicted.
struct metrics {
  double loss = 0;  ///< Sum of the samples' losses.
  /// Samples whose label has the largest logit (`top1`) or one of the five largest (`top5`), and
  /// all samples. Negative: a model of your own does not count them; without `top1` there is no
  /// `top5`.
  std::int64_t top1 = 0, top5 = 0, count = 0;

  /// Adds sums over other samples.
  constexpr metrics& operator+=(const metrics& other) {
    loss += other.loss;
    top1 += other.top1;
    top5 += other.top5;
    count += other.count;
    return *this;
  }
  /// Loss per sample; 0 without samples.
  [[nodiscard]] constexpr double mean_loss() const {
    return count ? loss / static_cast<double>(count) : 0;
  }
  /// Top-1 accuracy, 0 to 1; 0 without samples, NaN if they are not counted.
  [[nodiscard]] constexpr double accuracy() const { return share(top1); }
  /// As `accuracy`, for `top5`.
  [[nodiscard]] constexpr double top5_accuracy() const { return share(top1 < 0 ? top1 : top5); }

 private:
  [[nodiscard]] constexpr double share(std::int64_t samples) const {
    if (samples < 0) return detail::core::limits<double>::quiet_NaN();
    return count ? static_cast<double>(samples) / static_cast<double>(count) : 0;
  }
};

}  // namespace cordee::inline CORDEE_ABI
