// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What batch normalisation on a GPU does between its passes: merges what the chunks of every group
// left, in double precision, and makes of it the rows of the next pass.
//
// With n_k rows, mean m_k and squared deviations d_k of chunk k (Chan et al., 1979):
//
//   m = sum(n_k m_k) / N,  v = sum(d_k + n_k (m_k - m)^2) / N
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <cordee/device/grid.hpp>
#include <cordee/ops/batch_norm.hpp>
#include <cordee/ops/grid/batch_norm_tiles.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// A grid that merges tables: eight channels of one group a block, its chunks spread over the rest
/// of the threads.
struct merge_tile {
  static constexpr int threads = 256, across = 8, down = threads / across;
  static constexpr std::size_t shared_bytes = threads * sizeof(double);

  static constexpr std::size_t blocks(const batch_norm_tiles& to) {
    return to.groups * blocks_for(to.in.lanes(), across);
  }

  std::size_t group, lane;
  int slot;
  bool writes;  // one thread for every channel

  template <class Block>
  CORDEE_DEVICE merge_tile(Block& b, std::size_t lanes) : slot(b.thread() / across) {
    const std::size_t tiles = blocks_for(lanes, across);
    const std::size_t mine =
        b.index() % tiles * across + static_cast<std::size_t>(b.thread() % across);
    group = b.index() / tiles;
    lane = std::min(mine, lanes - 1);  // one too many looks on
    writes = slot == 0 && mine < lanes;
  }

  /// The sum of f(chunk) over all chunks, on every thread of the channel; `room` is the block's.
  template <class Block, class F>
  CORDEE_DEVICE double sum(Block& b, double* room, std::size_t chunks, const F& f) const {
    double own = 0, all = 0;
    for (auto k = static_cast<std::size_t>(slot); k < chunks; k += down) own += f(k);
    room[b.thread()] = own;
    b.sync();
    for (int k = 0; k < down; ++k) all += room[k * across + b.thread() % across];
    b.sync();  // before the next sum writes
    return all;
  }
};

/// From the chunks' moments to the rows that forward applies, and mean and unbiased variance of
/// each group.
template <class Real>
struct merge_chunk_moments {
  static constexpr int threads = merge_tile::threads;
  batch_norm_tiles to;
  const Real* gamma;
  Real* saved;
  const double *means, *deviations;
  double *mean, *variance;  // (groups, lanes)

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return merge_tile::shared_bytes; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    double* const room = b.template shared<double>(threads);
    const std::size_t lanes = to.in.lanes();
    const merge_tile my(b, lanes);
    const auto count = static_cast<double>(to.rows_of(my.group));
    const auto rows = [&](std::size_t chunk) {
      return static_cast<double>(to.rows_of(my.group, chunk));
    };
    const double sum = my.sum(b, room, to.chunks, [&](std::size_t k) {
      const double n = rows(k);
      return n > 0 ? n * means[to.entry(my.group, k, my.lane)] : 0;
    });
    const double centre = sum / count;
    const double squares = my.sum(b, room, to.chunks, [&](std::size_t k) {
      const double n = rows(k);
      if (n == 0) return 0.0;
      const std::size_t entry = to.entry(my.group, k, my.lane);
      const double away = means[entry] - centre;
      return deviations[entry] + n * away * away;
    });
    if (!my.writes) return;
    const double spread = squares / count;
    const batch_norm_rows<Real> row(saved, lanes, my.group);
    const double inverse = 1 / std::sqrt(spread + batch_norm_problem::epsilon);
    row.centre[my.lane] = static_cast<Real>(centre);
    row.inverse[my.lane] = static_cast<Real>(inverse);
    row.scale[my.lane] = static_cast<Real>(static_cast<double>(gamma[my.lane]) * inverse);
    mean[my.group * lanes + my.lane] = centre;
    variance[my.group * lanes + my.lane] = count > 1 ? count / (count - 1) * spread : spread;
  }
};

/// Channel c's running statistics towards the mean of the groups'.
template <class Real>
struct running_step {
  std::size_t groups, lanes;
  const double *mean, *variance;  // (groups, lanes)
  Real *running_mean, *running_variance;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    move(running_mean[c], mean + c);
    move(running_variance[c], variance + c);
  }
  CORDEE_DEVICE void move(Real& running, const double* statistic) const {
    double sum = 0;
    for (std::size_t g = 0; g < groups; ++g) sum += statistic[g * lanes];
    constexpr double m = batch_norm_problem::momentum;
    running = static_cast<Real>((1 - m) * static_cast<double>(running) +
                                m / static_cast<double>(groups) * sum);
  }
};

/// Lane c's rows from the running statistics.
template <class Real>
struct evaluation_rows {
  std::size_t channels, lanes;
  const Real *gamma, *running_mean, *running_variance;
  Real* saved;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_rows<Real> row(saved, lanes, 0);
    const bool padding = c >= channels;
    const double variance = padding ? 1.0 : static_cast<double>(running_variance[c]);
    row.centre[c] = padding ? Real{0} : running_mean[c];
    const double deviation = std::sqrt(variance + batch_norm_problem::epsilon);
    row.inverse[c] = static_cast<Real>(1 / deviation);
    row.scale[c] = static_cast<Real>(static_cast<double>(gamma[c]) / deviation);
  }
};

/// From the chunks' sums to each group's, and the rows of dx = scale g - shift - (x - centre)
/// slope.
template <class Real>
struct merge_chunk_sums {
  static constexpr int threads = merge_tile::threads;
  batch_norm_tiles to;
  const Real* gamma;
  Real* saved;
  const double *shifts, *scales;
  double *shift, *scale;  // (groups, lanes)
  bool constants;         // no number moves the statistics

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return merge_tile::shared_bytes; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    double* const room = b.template shared<double>(threads);
    const std::size_t lanes = to.in.lanes();
    const merge_tile my(b, lanes);
    const auto total = [&](const double* of) {
      return my.sum(b, room, to.chunks,
                    [&](std::size_t k) { return of[to.entry(my.group, k, my.lane)]; });
    };
    const double all_shifts = total(shifts), all_scales = total(scales);
    if (!my.writes) return;
    const batch_norm_rows<Real> row(saved, lanes, my.group);
    const double values =
        constants ? batch_norm_problem::constant : static_cast<double>(to.rows_of(my.group));
    const auto inverse = static_cast<double>(row.inverse[my.lane]);
    const double a = static_cast<double>(gamma[my.lane]) * inverse;
    row.scale[my.lane] = static_cast<Real>(a);
    row.shift[my.lane] = static_cast<Real>(a * all_shifts / values);
    row.slope[my.lane] = static_cast<Real>(a * all_scales / values * inverse);
    shift[my.group * lanes + my.lane] = all_shifts;
    scale[my.group * lanes + my.lane] = all_scales;
  }
};

/// Channel c's gradients: the sums of the groups.
template <class Real>
struct gradient_step {
  std::size_t groups, lanes;
  const double *shift, *scale;  // (groups, lanes)
  Real *dbeta, *dgamma;
  bool adds;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    move(dbeta[c], shift + c);
    move(dgamma[c], scale + c);
  }
  CORDEE_DEVICE void move(Real& gradient, const double* sums) const {
    double sum = adds ? static_cast<double>(gradient) : 0;
    for (std::size_t g = 0; g < groups; ++g) sum += sums[g * lanes];
    gradient = static_cast<Real>(sum);
  }
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
