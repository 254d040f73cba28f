// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization on a GPU, at the end of a pass over the chunks: merges their results in
// double (chunk_merge.hpp) and computes the coefficients of the next pass.
//
// With n_k rows, mean m_k and squared deviations d_k of chunk k (Chan et al., 1979), in one pass by
// the first chunk's mean as the origin o:
//
//   s = sum(n_k (m_k - o)) / N,    m = o + s
//   d = sum(d_k + n_k (m_k - o)^2) - N s^2,    v = d / N
//
// The difference loses no more than a factor of K in K chunks: if the first one's mean is off by D,
// d is at least about N D^2 / K.
#pragma once

#include <cmath>
#include <cstddef>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/chunk_merge.hpp>
#include <cordee/ops/gpu/moments_message.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Moves channel c's running statistics towards the mean over the groups.
template <class Real>
struct running_statistics_op {
  std::size_t groups, lanes;
  const double *mean, *variance;  // (groups, lanes)
  Real *running_mean, *running_variance;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    double means = 0, variances = 0;
    for (std::size_t at = c; at < groups * lanes; at += lanes) {
      means += mean[at];
      variances += variance[at];
    }
    move(c, means, variances, static_cast<double>(groups));
  }
  /// Same, from the sums of the statistics of `count` groups.
  CORDEE_DEVICE void move(std::size_t c, double means, double variances, double count) const {
    constexpr double m = batch_norm_problem::momentum;
    const auto moved = [&](Real running, double sum) {
      return static_cast<Real>((1 - m) * static_cast<double>(running) + m / count * sum);
    };
    running_mean[c] = moved(running_mean[c], means);
    running_variance[c] = moved(running_variance[c], variances);
  }
};

/// Mean and squared deviations of chunks, merged (merge_chunks).
struct merged_deviations {
  [[nodiscard]] CORDEE_DEVICE channel_pair term(double rows, const channel_pair& of,
                                                const channel_pair& origin) const {
    const double difference = of.first - origin.first;
    return {rows * difference, of.second + rows * difference * difference};
  }
  [[nodiscard]] CORDEE_DEVICE channel_pair total(const channel_pair& sum, double rows,
                                                 const channel_pair& origin) const {
    const double shift = sum.first / rows, squares = sum.second - sum.first * shift;
    return {origin.first + shift, squares < 0 ? 0 : squares};  // NaN stays NaN
  }
};
/// Two sums of chunks, added.
struct added_sums {
  [[nodiscard]] CORDEE_DEVICE channel_pair term(double, const channel_pair& of,
                                                const channel_pair&) const {
    return of;
  }
  [[nodiscard]] CORDEE_DEVICE channel_pair total(const channel_pair& sum, double,
                                                 const channel_pair&) const {
    return sum;
  }
};

/// Merges the chunks' moments: the coefficients of forward, and each group's mean and unbiased
/// variance; of one group also what becomes of them.
template <class Real>
struct moments_merge {
  chunk_merge chunks;
  const Real* gamma;
  Real* saved;
  double *mean, *variance;  // (groups, lanes)
  running_statistics_op<Real> running{};
  std::size_t channels = 0;  // of one group: whose running statistics move, without a message

  /// The entry of a chunk of `count` numbers, from the sums of x - origin and of its square.
  CORDEE_DEVICE void store_chunk(std::size_t entry, double count, double origin, double sum,
                                 double square) const {
    const double shift = sum / count, m2 = square - sum * shift;
    chunks.firsts[entry] = origin + shift;
    chunks.seconds[entry] = m2 < 0 ? 0 : m2;  // NaN stays NaN
  }

  /// By a block of `Threads` threads. message, of one group: this rank's moments_message. An
  /// argument, so that a convolution's kernel has no code for it.
  template <int Threads, class Block>
  CORDEE_DEVICE void merge(Block& b, const merge_place& at, double* shared,
                           double* message = nullptr) const {
    merge_chunks<Threads>(b, at, chunks, shared, merged_deviations{},
                          [&](std::size_t g, std::size_t lane, const channel_pair& of) {
                            store(static_cast<double>(at.rows), g, lane, of, message);
                          });
  }

 private:
  CORDEE_DEVICE void store(double count, std::size_t g, std::size_t lane, const channel_pair& of,
                           double* message) const {
    const std::size_t lanes = chunks.lanes;
    const double biased_variance = of.second / count;
    const batch_norm_coefficients<Real> row(saved, lanes, g);
    const double inverse = 1 / std::sqrt(biased_variance + batch_norm_problem::epsilon);
    row.mean[lane] = static_cast<Real>(of.first);
    row.inv_std[lane] = static_cast<Real>(inverse);
    row.scale[lane] = static_cast<Real>(static_cast<double>(gamma[lane]) * inverse);
    const double unbiased_variance =
        count > 1 ? count / (count - 1) * biased_variance : biased_variance;
    mean[g * lanes + lane] = of.first;
    variance[g * lanes + lane] = unbiased_variance;
    if (lane >= channels) return;
    if (message == nullptr) return running.move(lane, of.first, unbiased_variance, 1);
    moments_message<Real>{channels, message}.write(lane, count, of);
  }
};

/// Doubles of memory of merged_moments.
constexpr std::size_t moments_size(const chunk_merge& chunks) {
  return chunks.numbers() + 2 * chunks.lanes;
}
/// Merges these chunks of one group into the statistics. `memory` holds moments_size(chunks)
/// doubles.
template <class Real, GpuStream S>
moments_merge<Real> merged_moments(const batch_statistics<Real>& to, chunk_merge chunks,
                                   double* memory, S s) {
  double *const mean = memory + chunks.numbers(), *const variance = mean + chunks.lanes;
  chunks.use_memory(memory, s);
  return {chunks,     to.gamma,
          to.saved,   mean,
          variance,   {1, chunks.lanes, mean, variance, to.running_mean, to.running_variance},
          to.channels};
}

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

/// Channel c's parameter gradients: sums over the groups. Null ones are not written.
template <class Real>
struct parameter_gradient_op {
  std::size_t groups, lanes;
  const double *shift, *scale;  // (groups, lanes)
  Real *dbeta, *dgamma;
  bool accumulate;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    sum_groups(c, shift, dbeta);
    sum_groups(c, scale, dgamma);
  }
  /// Adds the sums of one group.
  CORDEE_DEVICE void add(std::size_t c, double shift_sum, double scale_sum) const {
    if (dbeta != nullptr) dbeta[c] = static_cast<Real>(before(dbeta + c) + shift_sum);
    if (dgamma != nullptr) dgamma[c] = static_cast<Real>(before(dgamma + c) + scale_sum);
  }

 private:
  CORDEE_DEVICE void sum_groups(std::size_t c, const double* sums, Real* gradient) const {
    if (gradient == nullptr) return;
    double sum = before(gradient + c);
    for (std::size_t at = c; at < groups * lanes; at += lanes) sum += sums[at];
    gradient[c] = static_cast<Real>(sum);
  }
  [[nodiscard]] CORDEE_DEVICE double before(const Real* gradient) const {
    return accumulate ? static_cast<double>(*gradient) : 0;
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
  std::size_t channels = 0;   // of one group: whose parameter gradients are written
  double* message = nullptr;  // (sum g, sum g h, n), (channels, channels, 1), for that over ranks

  template <int Threads, class Block>
  CORDEE_DEVICE void merge(Block& b, const merge_place& at, double* shared) const {
    merge_chunks<Threads>(b, at, chunks, shared, added_sums{},
                          [&](std::size_t g, std::size_t lane, const channel_pair& of) {
                            store(static_cast<double>(at.rows), g, lane, of);
                          });
  }

 private:
  CORDEE_DEVICE void store(double rows, std::size_t g, std::size_t lane,
                           const channel_pair& of) const {
    const std::size_t lanes = chunks.lanes;
    const batch_norm_coefficients<Real> row(saved, lanes, g);
    const double count = constant ? batch_norm_problem::frozen_count : rows;
    const auto inverse = static_cast<double>(row.inv_std[lane]);
    const double a = static_cast<double>(gamma[lane]) * inverse;
    row.shift[lane] = static_cast<Real>(a * of.first / count);
    row.slope[lane] = static_cast<Real>(a * of.second / count * inverse);
    shift[g * lanes + lane] = of.first;
    scale[g * lanes + lane] = of.second;
    if (lane >= channels) return;
    gradient.add(lane, of.first, of.second);
    if (message == nullptr) return;
    message[lane] = of.first;
    message[channels + lane] = of.second;
    if (lane == 0) message[2 * channels] = rows;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
