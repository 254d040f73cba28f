// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization on a GPU, at the end of a pass over the chunks: merges their results in double
// and computes the coefficients of the next pass, without a launch of its own. Of the blocks of a
// set of chunks the last one merges the set, and of those the last one merges the group's sets;
// chunks and sets are added in their order, whichever block is the last.
//
// With n_k rows, mean m_k and squared deviations d_k of chunk k (Chan et al., 1979):
//
//   m = sum(n_k m_k) / N,    d = sum(d_k + n_k (m_k - m)^2),    v = d / N
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/batch_norm_tiles.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The memory of a merge: two numbers of each chunk, then of each set of chunks. A group has about as
/// many sets as a set has chunks.
struct chunk_merge {
  std::size_t set = 1, sets;                     // chunks of a set; sets of a group
  double *firsts = nullptr, *seconds = nullptr;  // (groups, chunks + sets, lanes)
  unsigned* arrived = nullptr;                   // (groups, tiles, sets + 1): zero

  constexpr explicit chunk_merge(const batch_norm_tiles& tiling) {
    while (set * set < tiling.chunks) ++set;
    sets = device::blocks_for(tiling.chunks, set);
  }
  [[nodiscard]] constexpr std::size_t numbers(const batch_norm_tiles& tiling) const {
    return 2 * tiling.groups * (tiling.chunks + sets) * tiling.in.lanes();
  }
  [[nodiscard]] constexpr std::size_t counters(const batch_norm_tiles& tiling) const {
    return tiling.groups * tiling.tiles * (sets + 1);
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t entry(const batch_norm_tiles& tiling,
                                                               std::size_t g, std::size_t chunk,
                                                               std::size_t lane) const {
    return (g * (tiling.chunks + sets) + chunk) * tiling.in.lanes() + lane;
  }
};

/// The channels of a block, of which each has several threads for its chunks.
struct channel_threads {
  std::size_t group, lane;
  int channel, channels, slot, slots;
  bool is_active;

  CORDEE_DEVICE channel_threads(const batch_norm_tiles& tiling,
                                const batch_norm_tiles::tile_position& at, int thread)
      : group(at.group), channels(static_cast<int>(tiling.across) * tiling.width) {
    channel = thread % channels;
    slot = thread / channels;
    slots = batch_norm_tiles::threads / channels;
    const std::size_t vector =
        tiling.vector_of(at, static_cast<std::size_t>(channel / tiling.width));
    lane = tiling.lane_of(at, vector) + static_cast<std::size_t>(channel % tiling.width);
    is_active = slot < slots && vector < tiling.vectors;
  }
  [[nodiscard]] CORDEE_DEVICE bool is_writer() const { return is_active && slot == 0; }

  /// The sum of f(k) over k < count, on every thread of the channel. Collective; `shared` holds a
  /// double of each thread.
  template <class Block, class F>
  CORDEE_DEVICE double sum(Block& b, double* shared, std::size_t count, const F& f) const {
    double partial = 0, total = 0;
    if (is_active)
      for (auto k = static_cast<std::size_t>(slot); k < count; k += static_cast<std::size_t>(slots))
        partial += f(k);
    shared[b.thread()] = partial;
    b.sync();
    for (int k = 0; k < slots; ++k) total += shared[k * channels + channel];
    b.sync();  // before the next sum writes
    return total;
  }
};

/// What is known of a channel's values: mean and squared deviations, or two sums.
struct channel_pair {
  double first, second;
};

/// Collective, at the end of every block of the tiling, when its chunk's entries are written. Merges
/// by combine(sum, rows, firsts, seconds, total rows) of `rows(k)` rows each, and calls
/// finish(group, lane, merged) for every channel, on one thread.
template <class Block, class Combine, class Finish>
CORDEE_DEVICE void merge_chunks(Block& b, const batch_norm_tiles& tiling, const chunk_merge& m,
                                double* shared, const Combine& combine, const Finish& finish) {
  const auto at = tiling.position_of(b.index());
  const channel_threads own(tiling, at, b.thread());
  const std::size_t set = at.chunk / m.set, first = set * m.set,
                    count = std::min(m.set, tiling.chunks - first), g = at.group;
  const auto merge = [&](std::size_t from, std::size_t n, std::size_t rows_each,
                         std::size_t first_row, std::size_t last_row) {
    const std::size_t entry = m.entry(tiling, g, from, own.lane), pitch = tiling.in.lanes();
    const auto rows = [&](std::size_t k) {
      const std::size_t begin = std::min(first_row + k * rows_each, last_row);
      return static_cast<double>(std::min(rows_each, last_row - begin));
    };
    return combine([&](const auto& f) { return own.sum(b, shared, n, f); }, rows,
                   [&](std::size_t k) { return m.firsts[entry + k * pitch]; },
                   [&](std::size_t k) { return m.seconds[entry + k * pitch]; },
                   static_cast<double>(last_row - std::min(first_row, last_row)));
  };
  unsigned* const arrived = m.arrived + (g * tiling.tiles + at.tile) * (m.sets + 1);
  if (!b.is_last(arrived + set, static_cast<unsigned>(count))) return;
  const std::size_t group_rows = tiling.rows_of(g), set_rows = m.set * tiling.rows;
  const channel_pair of_set = merge(first, count, tiling.rows, first * tiling.rows,
                                    std::min(group_rows, (set + 1) * set_rows));
  if (own.is_writer()) {
    const std::size_t entry = m.entry(tiling, g, tiling.chunks + set, own.lane);
    m.firsts[entry] = of_set.first;
    m.seconds[entry] = of_set.second;
  }
  if (!b.is_last(arrived + m.sets, static_cast<unsigned>(m.sets))) return;
  const channel_pair of_group = merge(tiling.chunks, m.sets, set_rows, 0, group_rows);
  if (own.is_writer()) finish(g, own.lane, of_group);
}

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

/// Merges the chunks' moments: the coefficients of forward, and each group's mean and unbiased
/// variance.
template <class Real>
struct moments_merge {
  chunk_merge chunks;
  const Real* gamma;
  Real* saved;
  double *mean, *variance;  // (groups, lanes)
  running_statistics_op<Real> running{};
  bool is_final = false;  // one group, of this rank: moves the running statistics as well

  template <class Block>
  CORDEE_DEVICE void merge(Block& b, const batch_norm_tiles& tiling, double* shared) const {
    const auto combine = [](const auto& sum, const auto& rows, const auto& means,
                            const auto& deviations, double count) {
      // An empty chunk's entries are not written.
      const double center =
          sum([&](std::size_t k) { return rows(k) > 0 ? rows(k) * means(k) : 0; }) / count;
      const double squares = sum([&](std::size_t k) {
        if (rows(k) == 0) return 0.0;
        const double difference = means(k) - center;
        return deviations(k) + rows(k) * difference * difference;
      });
      return channel_pair{center, squares};
    };
    merge_chunks(b, tiling, chunks, shared, combine,
                 [&](std::size_t g, std::size_t lane, const channel_pair& of) {
                   store(tiling, g, lane, of);
                 });
  }

 private:
  CORDEE_DEVICE void store(const batch_norm_tiles& tiling, std::size_t g, std::size_t lane,
                           const channel_pair& of) const {
    const std::size_t lanes = tiling.in.lanes();
    const auto count = static_cast<double>(tiling.rows_of(g));
    const double biased_variance = of.second / count;
    const batch_norm_coefficients<Real> row(saved, lanes, g);
    const double inverse = 1 / std::sqrt(biased_variance + batch_norm_problem::epsilon);
    row.mean[lane] = static_cast<Real>(of.first);
    row.inv_std[lane] = static_cast<Real>(inverse);
    row.scale[lane] = static_cast<Real>(static_cast<double>(gamma[lane]) * inverse);
    mean[g * lanes + lane] = of.first;
    variance[g * lanes + lane] =
        count > 1 ? count / (count - 1) * biased_variance : biased_variance;
    if (is_final && lane < tiling.in.channels) running(lane);
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

/// Merges the chunks' sums: each group's, and shift and slope of
///
///   dx = scale g - shift - (x - center) slope
///
/// The scale stays forward's, by which backward computes the sign of y.
template <class Real>
struct sums_merge {
  chunk_merge chunks;
  const Real* gamma;
  Real* saved;
  double *shift, *scale;  // (groups, lanes)
  bool constant;          // the statistics do not depend on x
  parameter_gradient_op<Real> gradient{};
  bool is_final = false;  // one group: writes the parameter gradients as well

  template <class Block>
  CORDEE_DEVICE void merge(Block& b, const batch_norm_tiles& tiling, double* shared) const {
    const auto combine = [](const auto& sum, const auto&, const auto& shifts, const auto& scales,
                            double) {
      const double shift_sum = sum(shifts);
      return channel_pair{shift_sum, sum(scales)};
    };
    merge_chunks(b, tiling, chunks, shared, combine,
                 [&](std::size_t g, std::size_t lane, const channel_pair& of) {
                   store(tiling, g, lane, of);
                 });
  }

 private:
  CORDEE_DEVICE void store(const batch_norm_tiles& tiling, std::size_t g, std::size_t lane,
                           const channel_pair& of) const {
    const std::size_t lanes = tiling.in.lanes();
    const batch_norm_coefficients<Real> row(saved, lanes, g);
    const double count =
        constant ? batch_norm_problem::frozen_count : static_cast<double>(tiling.rows_of(g));
    const auto inverse = static_cast<double>(row.inv_std[lane]);
    const double a = static_cast<double>(gamma[lane]) * inverse;
    row.shift[lane] = static_cast<Real>(a * of.first / count);
    row.slope[lane] = static_cast<Real>(a * of.second / count * inverse);
    shift[g * lanes + lane] = of.first;
    scale[g * lanes + lane] = of.second;
    if (is_final && lane < tiling.in.channels) gradient(lane);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
