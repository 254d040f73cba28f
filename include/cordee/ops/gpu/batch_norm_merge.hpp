// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization on a GPU, between its passes: merges the chunks' results of every group in
// double and computes the coefficients of the next pass.
//
// With n_k rows, mean m_k and squared deviations d_k of chunk k (Chan et al., 1979):
//
//   m = sum(n_k m_k) / N,    v = sum(d_k + n_k (m_k - m)^2) / N
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/batch_norm_tiles.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The division of a merge: a block takes eight channels of one group and spreads their chunks over
/// its threads.
struct merge_tile {
  static constexpr int threads = 256, across = 8, down = threads / across;
  static constexpr std::size_t shared_bytes = threads * sizeof(double);

  static constexpr std::size_t blocks(const batch_norm_tiles& tiling) {
    return tiling.groups * device::blocks_for(tiling.in.lanes(), across);
  }

  std::size_t group, lane;
  int slot;
  bool is_writer;  // one thread per channel

  template <class Block>
  CORDEE_DEVICE merge_tile(Block& b, std::size_t lanes) : slot(b.thread() / across) {
    const std::size_t tiles = device::blocks_for(lanes, across);
    const std::size_t own_lane =
        b.index() % tiles * across + static_cast<std::size_t>(b.thread() % across);
    group = b.index() / tiles;
    lane = std::min(own_lane, lanes - 1);  // threads beyond the last lane repeat it
    is_writer = slot == 0 && own_lane < lanes;
  }

  /// The sum of f(chunk) over all chunks, on every thread of the channel; `shared` holds `threads`
  /// doubles.
  template <class Block, class F>
  CORDEE_DEVICE double sum(Block& b, double* shared, std::size_t chunks, const F& f) const {
    double partial = 0, total = 0;
    for (auto k = static_cast<std::size_t>(slot); k < chunks; k += down) partial += f(k);
    shared[b.thread()] = partial;
    b.sync();
    for (int k = 0; k < down; ++k) total += shared[k * across + b.thread() % across];
    b.sync();  // before the next sum writes
    return total;
  }
};

/// Moves channel c's running statistics towards the mean over the groups.
template <class Real>
struct running_statistics_op {
  std::size_t groups, lanes;
  const double *mean, *variance;  // (groups, lanes)
  Real *running_mean, *running_variance;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    update(running_mean[c], mean + c);
    update(running_variance[c], variance + c);
  }
  CORDEE_DEVICE void update(Real& running, const double* statistic) const {
    double sum = 0;
    for (std::size_t g = 0; g < groups; ++g) sum += statistic[g * lanes];
    constexpr double m = batch_norm_problem::momentum;
    running = static_cast<Real>((1 - m) * static_cast<double>(running) +
                                m / static_cast<double>(groups) * sum);
  }
};

/// From the chunks' moments: the coefficients of forward, and each group's mean and unbiased
/// variance.
template <class Real>
struct merge_moments_kernel {
  static constexpr int threads = merge_tile::threads;
  batch_norm_tiles tiling;
  const Real* gamma;
  Real* saved;
  const double *means, *deviations;
  double *mean, *variance;  // (groups, lanes)
  running_statistics_op<Real> running{};
  bool is_final = false;  // one group, of this rank: moves the running statistics as well

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return merge_tile::shared_bytes; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    double* const shared = b.template shared<double>(threads);
    const std::size_t lanes = tiling.in.lanes();
    const merge_tile tile(b, lanes);
    const auto count = static_cast<double>(tiling.rows_of(tile.group));
    const auto rows = [&](std::size_t chunk) {
      return static_cast<double>(tiling.rows_of(tile.group, chunk));
    };
    const double sum = tile.sum(b, shared, tiling.chunks, [&](std::size_t k) {
      const double n = rows(k);
      return n > 0 ? n * means[tiling.entry(tile.group, k, tile.lane)] : 0;
    });
    const double center = sum / count;
    const double squares = tile.sum(b, shared, tiling.chunks, [&](std::size_t k) {
      const double n = rows(k);
      if (n == 0) return 0.0;
      const std::size_t entry = tiling.entry(tile.group, k, tile.lane);
      const double difference = means[entry] - center;
      return deviations[entry] + n * difference * difference;
    });
    if (!tile.is_writer) return;
    const double biased_variance = squares / count;
    const batch_norm_coefficients<Real> row(saved, lanes, tile.group);
    const double inverse = 1 / std::sqrt(biased_variance + batch_norm_problem::epsilon);
    row.mean[tile.lane] = static_cast<Real>(center);
    row.inv_std[tile.lane] = static_cast<Real>(inverse);
    row.scale[tile.lane] = static_cast<Real>(static_cast<double>(gamma[tile.lane]) * inverse);
    mean[tile.group * lanes + tile.lane] = center;
    variance[tile.group * lanes + tile.lane] =
        count > 1 ? count / (count - 1) * biased_variance : biased_variance;
    if (is_final && tile.lane < tiling.in.channels) running(tile.lane);
  }
};

/// Lane c's coefficients from the running statistics.
template <class Real>
struct evaluation_coefficients_op {
  std::size_t channels, lanes;
  const Real *gamma, *running_mean, *running_variance;
  Real* saved;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_coefficients<Real> row(saved, lanes, 0);
    const bool padding = c >= channels;
    const double variance = padding ? 1.0 : static_cast<double>(running_variance[c]);
    row.mean[c] = padding ? Real{0} : running_mean[c];
    const double deviation = std::sqrt(variance + batch_norm_problem::epsilon);
    row.inv_std[c] = static_cast<Real>(1 / deviation);
    row.scale[c] = static_cast<Real>(static_cast<double>(gamma[c]) / deviation);
  }
};

/// Channel c's parameter gradients: sums over the groups.
template <class Real>
struct parameter_gradient_op {
  std::size_t groups, lanes;
  const double *shift, *scale;  // (groups, lanes)
  Real *dbeta, *dgamma;
  bool accumulate;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    update(dbeta[c], shift + c);
    update(dgamma[c], scale + c);
  }
  CORDEE_DEVICE void update(Real& gradient, const double* sums) const {
    double sum = accumulate ? static_cast<double>(gradient) : 0;
    for (std::size_t g = 0; g < groups; ++g) sum += sums[g * lanes];
    gradient = static_cast<Real>(sum);
  }
};

/// From the chunks' sums: each group's, and shift and slope of
///
///   dx = scale g - shift - (x - center) slope
///
/// The scale stays forward's, by which backward computes the sign of y.
template <class Real>
struct merge_sums_kernel {
  static constexpr int threads = merge_tile::threads;
  batch_norm_tiles tiling;
  const Real* gamma;
  Real* saved;
  const double *shifts, *scales;
  double *shift, *scale;  // (groups, lanes)
  bool constant;          // the statistics do not depend on x
  parameter_gradient_op<Real> gradient{};
  bool is_final = false;  // one group: writes the parameter gradients as well

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return merge_tile::shared_bytes; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    double* const shared = b.template shared<double>(threads);
    const std::size_t lanes = tiling.in.lanes();
    const merge_tile tile(b, lanes);
    const auto total = [&](const double* values) {
      return tile.sum(b, shared, tiling.chunks, [&](std::size_t k) {
        return values[tiling.entry(tile.group, k, tile.lane)];
      });
    };
    const double shift_sum = total(shifts), scale_sum = total(scales);
    if (!tile.is_writer) return;
    const batch_norm_coefficients<Real> row(saved, lanes, tile.group);
    const double count = constant ? batch_norm_problem::frozen_count
                                  : static_cast<double>(tiling.rows_of(tile.group));
    const auto inverse = static_cast<double>(row.inv_std[tile.lane]);
    const double a = static_cast<double>(gamma[tile.lane]) * inverse;
    row.shift[tile.lane] = static_cast<Real>(a * shift_sum / count);
    row.slope[tile.lane] = static_cast<Real>(a * scale_sum / count * inverse);
    shift[tile.group * lanes + tile.lane] = shift_sum;
    scale[tile.group * lanes + tile.lane] = scale_sum;
    if (is_final && tile.lane < tiling.in.channels) gradient(tile.lane);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
