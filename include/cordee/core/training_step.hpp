// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Types of one training step that comm, optim, nn, data and train share: those folders do not
// include one another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/config.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/span_on.hpp>

namespace cordee::inline CORDEE_ABI {

/// How far the ranks agree after an exchange, weakest first.
///   loose    a stateful or asynchronous exchange
///   mixing   x <- W x with a doubly stochastic matrix W, without state
///   exact    every rank holds the same vector: the mean, or adasum's sum
enum class agreement { loose, mixing, exact };

/// When an optimizer needs the norms of every segment.
enum class norms_needed { never, before_propose, before_accept };

enum class phase { train, evaluate };
enum class write_mode { overwrite, add };

/// The position in training. `step` counts updates, skipped ones included, `applied` those that
/// were applied, `round` exchanges. `previous_learning_rate` is that of the last applied step, 0
/// before the first one.
struct step_info {
  std::int64_t step = 0, applied = 0, round = 0;
  double epoch = 0, learning_rate = 0, previous_learning_rate = 0;
};

/// One bucket for a reducer: `values` is exchanged in place, `slots` are the same range of the
/// reducer's own planes, `scratch` has the size that the reducer's scratch() returned.
template <class Real, class D, int Slots>
struct bucket_view {
  const bucket* layout = nullptr;
  span_on<Real, D> values;
  std::array<span_on<Real, D>, static_cast<std::size_t>(Slots)> slots{};
  span_on<std::byte, D> scratch;
};

/// A bucket, or all trainable segments, for an optimizer: the same range of every plane. Offsets of
/// segments are the arena's; the spans begin at the first segment's offset.
template <class Real, class D, int Slots>
struct optimizer_view {
  span_on<Real, D> weights, grads;
  std::array<span_on<Real, D>, static_cast<std::size_t>(Slots)> slots{};
  std::span<const segment> segments;
  span_on<const double, D> squared_weight_norms{};  // (segments), filled as O::norms demands
  span_on<double, D> squared_grad_norms{};          // likewise; clip rescales them
  // (1): of the whole gradient. Of the reduced mean in accept, where the optimizer needs an exact
  // mean; else of this rank's gradient, in accept and in the propose of an optimizer that is not
  // eager.
  span_on<const double, D> squared_global_norm{};
  span_on<double, D> sums{};           // (segments), scratch of the optimizer
  bool finite = true;                  // false: the local gradient must not be applied
  span_on<const step_info, D> info{};  // (1), for kernels
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

/// The momentum with which an optimizer moves the disagreement between ranks; wrappers forward it.
struct momentum_form {
  double momentum = 0;
  bool nesterov = false;
  bool quasi_global = false;  // momentum read from a running average of mixed displacements,
  double smoothing = 0;       // which keeps this share of its old value
};
namespace detail::core {
/// A spectral radius above this counts as 1: rounding may raise a stable one to it.
inline constexpr double largest_stable_radius = 1 - 1e-12;
}  // namespace detail::core

/// Bytes to numbers: (byte / 255 - mean) * scale for each channel; scale is 1 / deviation.
struct normalization {
  std::array<float, 4> mean{};
  std::array<float, 4> scale{1, 1, 1, 1};

  bool operator==(const normalization&) const = default;
};

/// One micro-batch of this rank: `count` samples of an update of `global_samples` samples over
/// `ranks` ranks and all their micro-batches. The trainer sets `loss_scale`, and `epoch`, in which
/// the update begins.
template <class D>
struct batch {
  span_on<const std::uint8_t, D> pixels;  // (count, channels, height, width)
  span_on<const std::int32_t, D> labels;  // (count)
  int count = 0;
  std::int64_t global_samples = 0;
  int ranks = 1;
  cordee::normalization normalization{};
  double loss_scale = 1;
  double epoch = 0;
  span_on<const float, D> device_loss_scale{};  // (1), for kernels of a replayed graph; or empty
  // Of samples that were mixed of two: the target is weight * label + (1 - weight) * other label.
  span_on<const std::int32_t, D> other_labels{};  // (count); or empty
  span_on<const float, D> label_weights{};        // (count), 0 .. 1; or empty
  // What random numbers of a forward pass depend on, beside the trainer's seed.
  std::int64_t first_sample = 0;       // the position of the first sample in the update
  std::uint64_t seed = 0;              // set by the trainer, as is
  span_on<const step_info, D> info{};  // (1), for kernels of a replayed graph; or empty: step 0

  bool operator==(const batch&) const = default;
  /// The factor of each sample's loss in backward,
  ///   loss_scale * ranks / global_samples,
  /// with which the mean of the gradients over ranks is the scaled gradient of the mean loss over
  /// all samples of the update, however they are distributed.
  [[nodiscard]] constexpr double loss_weight() const { return loss_scale * unscaled_loss_weight(); }
  /// ranks / global_samples
  [[nodiscard]] constexpr double unscaled_loss_weight() const {
    return static_cast<double>(ranks) / static_cast<double>(global_samples);
  }
  /// A copy with this loss scale and epoch.
  [[nodiscard]] constexpr batch with_loss_scale(double scale, double at_epoch) const {
    batch b = *this;
    b.loss_scale = scale;
    b.epoch = at_epoch;
    return b;
  }
};

/// Sums over `count` samples, so that metrics of micro-batches and ranks add up. A mixed sample is
/// counted as right where the label of the larger weight is found.
struct metrics {
  double loss = 0;
  std::int64_t top1 = 0, top5 = 0, count = 0;

  constexpr metrics& operator+=(const metrics& other) {
    loss += other.loss;
    top1 += other.top1;
    top5 += other.top5;
    count += other.count;
    return *this;
  }
  [[nodiscard]] constexpr double mean_loss() const {
    return count ? loss / static_cast<double>(count) : 0;
  }
  [[nodiscard]] constexpr double accuracy() const {
    return count ? static_cast<double>(top1) / static_cast<double>(count) : 0;
  }
};

}  // namespace cordee::inline CORDEE_ABI
