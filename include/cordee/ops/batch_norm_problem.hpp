// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One batch normalisation: its geometry, its buffers, and the ranks that share its statistics.
#pragma once

#include <cstddef>
#include <span>

#include <cordee/core/config.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// What is computed of gamma h + beta before it is stored.
namespace epilogue {
struct store {};     // y = gamma h + beta
struct relu {};      // y = max(gamma h + beta, 0)
struct add_relu {};  // y = max(gamma h + beta + residual, 0)
}  // namespace epilogue

/// The hook of synchronised batch normalisation: replaces the numbers by their sums over the ranks
/// that share statistics. Empty: the statistics are this rank's. Collective: every rank of the
/// group calls it equally often, even with a batch of no samples.
struct statistics_allreduce {
  void (*call)(void* context, std::span<double> sums) = nullptr;
  void* context = nullptr;
  /// The same for `size` numbers in a device's memory, as work of the stream of that device which
  /// `stream` points to: the host does not wait for them. A GPU's batch norm prefers it to `call`.
  /// Set only where all ranks share statistics.
  void (*enqueue)(void* context, double* sums, std::size_t size, const void* stream) = nullptr;

  explicit operator bool() const { return call != nullptr || enqueue != nullptr; }
  /// Whether a device's pass waits for the host.
  [[nodiscard]] bool blocks_host() const { return call != nullptr && enqueue == nullptr; }
  void operator()(std::span<double> sums) const {
    if (call != nullptr) call(context, sums);
  }
};

/// One layer's geometry. Statistics are taken over ghost batches of `ghost_batch` consecutive
/// samples (0: the whole batch); the last one of a batch may be smaller. Without a moving average
/// the running statistics become the batch's mean and biased variance.
struct batch_norm_problem {
  extent in;
  int ghost_batch = 0;
  bool moving_average = true;  // false: on the CPU

  static constexpr double epsilon = 1e-5;
  static constexpr double momentum = 0.1;  // the weight of a new statistic in the running one
  /// The `count` that batch_norm_backward takes where the statistics are constants.
  static constexpr double frozen_count = core::limits<double>::infinity();

  [[nodiscard]] constexpr std::size_t ghost_batch_size(int samples) const {
    return static_cast<std::size_t>(ghost_batch == 0 ? std::max(samples, 1) : ghost_batch);
  }
  [[nodiscard]] constexpr std::size_t ghost_batches(int samples) const {
    return (static_cast<std::size_t>(samples) + ghost_batch_size(samples) - 1) /
           ghost_batch_size(samples);
  }
  /// Whether one of these ghost batches has a single value for each channel.
  [[nodiscard]] constexpr bool has_single_value(int samples) const {
    return in.pixels() == 1 && samples > 0 &&
           (static_cast<std::size_t>(samples) - 1) % ghost_batch_size(samples) == 0;
  }
  /// Channels rounded up to whole blocks.
  [[nodiscard]] constexpr std::size_t padded_channels(int block) const {
    return channel_blocks(in.channels, block) * static_cast<std::size_t>(block);
  }
  /// Numbers that forward saves for backward: (max(ghost batches, 1), 5, padded channels).
  [[nodiscard]] constexpr std::size_t saved_size(int samples, int block) const {
    return std::max(ghost_batches(samples), std::size_t{1}) * 5 * padded_channels(block);
  }
  /// Doubles of scratch of either direction: two rows for each sample, and one message of sums.
  [[nodiscard]] constexpr std::size_t scratch_size(int samples, int block) const {
    return (2 * static_cast<std::size_t>(samples) + 2) * scratch_pitch(block) + 1;
  }
  /// Doubles from one row of scratch to the next: a cache line more than a row holds, since rows a
  /// power of two apart would map to the same few cache sets.
  [[nodiscard]] constexpr std::size_t scratch_pitch(int block) const {
    return padded_channels(block) + 8;
  }
};

/// The scratch of one direction: two sums of each sample and channel, and a message of sums over
/// samples.
struct batch_norm_sums {
  std::size_t pitch;
  double* firsts;   // (samples, pitch)
  double* seconds;  // (samples, pitch)
  double* message;  // (1 + 2 pitch)

  constexpr batch_norm_sums(const batch_norm_problem& p, int samples, int block, double* scratch)
      : pitch(p.scratch_pitch(block)),
        firsts(scratch),
        seconds(firsts + static_cast<std::size_t>(samples) * pitch),
        message(seconds + static_cast<std::size_t>(samples) * pitch) {}

  [[nodiscard]] constexpr double* first(std::size_t sample) const {
    return firsts + sample * pitch;
  }
  [[nodiscard]] constexpr double* second(std::size_t sample) const {
    return seconds + sample * pitch;
  }
};

/// The buffers that forward and backward of one layer share. gamma and beta are padded to whole
/// blocks with zeros, so that padding channels stay zero; running statistics and gradients have no
/// padding.
template <class Number, class Real = Number>
struct batch_norm_tensors {
  const Number* x = nullptr;    // (samples, C / V, H, W, V): the input, saved for backward
  Number* y = nullptr;          // (samples, C / V, H, W, V): the output, backward's ReLU mask
  const Real* gamma = nullptr;  // (padded channels)
  const Real* beta = nullptr;   // (padded channels)
  Real* saved = nullptr;        // (saved_size(samples, V))
  double* scratch = nullptr;    // (scratch_size(samples, V))
};

/// A batch norm of which dx and the parameters' gradients are computed; null ones are not written.
template <class Number, class Real>
struct norm_gradients {
  batch_norm_tensors<Number, Real> t;
  Number* dx;
  Real *dgamma, *dbeta;
};

/// The saved rows of one ghost batch, (5, padded channels). Forward writes `mean` and `inv_std`;
/// the others are the coefficients of the pass in progress.
template <class Real>
struct batch_norm_coefficients {
  Real *mean, *inv_std, *scale, *shift, *slope;

  constexpr batch_norm_coefficients(Real* saved, std::size_t padded_channels,
                                    std::size_t ghost_batch)
      : mean(saved + ghost_batch * 5 * padded_channels),
        inv_std(mean + padded_channels),
        scale(inv_std + padded_channels),
        shift(scale + padded_channels),
        slope(shift + padded_channels) {}
};

/// Where the statistics of a batch go that is one ghost batch, for what computes them instead of
/// batch_norm_forward: the saved rows, and the running statistics. Null: nowhere.
template <class Real>
struct batch_statistics {
  std::size_t channels = 0;
  const Real* gamma = nullptr;
  Real *saved = nullptr, *running_mean = nullptr, *running_variance = nullptr;
  const Real* beta = nullptr;  // (padded channels), for an engine that fuses_batch_norm
};

/// Why a batch norm beside a convolution of an engine that fuses_batch_norm is not fused.
enum class not_fused {
  frozen_statistics,
  ghost_batches,
  recomputed,
  shared_gradients,
  pool_of_projection,
  pool_of_pixels
};
/// What such a batch norm is fused with that is no convolution.
enum class fused_pool { max, average };

/// The input of a convolution that is y of a batch norm with ReLU, whose coefficients in `saved`
/// are known, but which need not be in memory: the convolution may read x instead, and normalize it
/// itself.
template <class Number, class Real>
struct normalized_input {
  batch_norm_problem problem;
  batch_norm_tensors<Number, Real> norm;
  /// Whether y is in its memory, and whether `saved` has rounded coefficients (rounded_coefficients
  /// in ops/gpu/fused_batch_norm.hpp) where the convolution before has taken the statistics.
  bool is_stored = false, is_rounded = false;
  /// At the end of a residual block what is added before the ReLU: the residual, or the output of a
  /// shortcut's batch norm, if it has an x. Then the convolution stores y.
  const Number* residual = nullptr;
  batch_norm_tensors<Number, Real> shortcut{};
  bool is_shortcut_rounded = false;
  const std::byte* packed = nullptr;  // the packed parameters, among which gamma and beta are

  explicit operator bool() const { return norm.x != nullptr; }
  /// Whether it is the end of a residual block.
  [[nodiscard]] bool adds() const { return residual != nullptr || shortcut.x != nullptr; }
  /// The packed parameters have moved to this address.
  void rebase(const std::byte* to) {
    const auto moved = [&](const Real* p) {
      return reinterpret_cast<const Real*>(to + (reinterpret_cast<const std::byte*>(p) - packed));
    };
    if (norm.x == nullptr || packed == to) return;
    for (auto* t : {&norm, &shortcut})
      if (t->x != nullptr) {
        t->gamma = moved(t->gamma);
        t->beta = moved(t->beta);
      }
    packed = to;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
