// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The words of one training step, shared by folders that may not include one another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/config.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/span_on.hpp>

namespace cordee::inline CORDEE_ABI {

/// What an exchange leaves the ranks with, weakest first.
/// loose: a stateful or asynchronous exchange; mixing: one memoryless multiplication by a doubly
/// stochastic matrix; exact: everybody leaves with the same mean.
enum class agreement { loose, mixing, exact };

/// When a rule wants per-segment norms.
enum class when { never, before_propose, before_accept };

enum class phase { train, evaluate };
enum class into { overwrite, add };

/// Where training stands. `step` counts updates, skipped ones included; `applied` those that were
/// applied; `round` exchanges. `previous_rate` is that of the last applied step, 0 before it.
struct moment {
  std::int64_t step = 0, applied = 0, round = 0;
  double epoch = 0, rate = 0, previous_rate = 0;
};

/// What a reducer multiplies: `what` is rewritten in place, `memory` is the same bucket of the
/// reducer's own planes.
template <class Real, class D, int Slots>
struct message {
  const bucket* which = nullptr;
  span_on<Real, D> what;
  std::array<span_on<Real, D>, static_cast<std::size_t>(Slots)> memory{};
  span_on<std::byte, D> scratch;
};

/// What a rule sees: the same range of every plane. Segment offsets are the arena's; the view
/// begins at the first segment's.
template <class Real, class D, int Slots>
struct view {
  span_on<Real, D> weights, grads;
  std::array<span_on<Real, D>, static_cast<std::size_t>(Slots)> slots{};
  std::span<const segment> segments;
  span_on<const double, D> weight_squares{};  // one per segment, filled when O::norms says
  span_on<double, D> grad_squares{};          // likewise; clip rescales them
  // One number, the squared norm of the whole gradient: of the mean in accept where the rule needs
  // an exact mean; else of this rank's own, in accept and in the propose of a rule not eager.
  span_on<const double, D> grad_square{};
  span_on<double, D> sums{};       // one per segment, free for the rule
  bool finite = true;              // false: take no step of your own
  span_on<const moment, D> now{};  // where kernels read the moment
};

/// Where a rule's kernels read the moment that the rule is told: on a GPU where the trainer keeps
/// it, so that launches of a step that is replayed find it as it is then.
template <class Real, class D, int Slots>
constexpr const moment* moment_of(const view<Real, D, Slots>& v, const moment& now) {
  if constexpr (D::host_memory)
    return &now;  // they run at once
  else
    return v.now.data;
}

/// How a rule moves the ranks' disagreement; wrappers forward it.
struct consensus {
  double momentum = 0;
  bool nesterov = false;
};
/// What a round multiplies the disagreement by; nearer to one it may be one, rounded.
inline constexpr double largest_stable_radius = 1 - 1e-12;

/// Bytes to numbers: (byte / 255 - mean) * scale per channel, where scale is 1 / deviation.
struct normalisation {
  std::array<float, 4> mean{};
  std::array<float, 4> scale{1, 1, 1, 1};

  bool operator==(const normalisation&) const = default;
};

/// `count` samples of this rank, bytes in (count, channels, height, width) order, of an update of
/// `global` samples over `ranks` ranks and all their micro-batches. `loss_scale` and `epoch` are
/// the trainer's; on a GPU the scale also stands in `scale`, where kernels of a step that is
/// replayed find it as it is then.
template <class D>
struct batch {
  span_on<const std::uint8_t, D> pixels;
  span_on<const std::int32_t, D> labels;
  int count = 0;
  std::int64_t global = 0;
  int ranks = 1;
  normalisation norm{};
  double loss_scale = 1;
  double epoch = 0;  // in which the update begins
  span_on<const float, D> scale{};

  bool operator==(const batch&) const = default;
  /// What backward multiplies each sample's loss by, so that the mean over ranks of the gradients
  /// is the (scaled) gradient of the mean over global samples, whatever each rank's share.
  [[nodiscard]] constexpr double seed() const { return loss_scale * share(); }
  /// The same of a loss that is not scaled.
  [[nodiscard]] constexpr double share() const {
    return static_cast<double>(ranks) / static_cast<double>(global);
  }
  [[nodiscard]] constexpr batch under(double scale, double when) const {
    batch b = *this;
    b.loss_scale = scale;
    b.epoch = when;
    return b;
  }
};

/// Sums over `count` samples: add scores of micro-batches and ranks, divide once.
struct score {
  double loss = 0;
  std::int64_t top1 = 0, top5 = 0, count = 0;

  constexpr score& operator+=(const score& other) {
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
