// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization on a GPU with statistics shared by ranks, as work of the stream: the
// equations of batch_norm_ranks.hpp, where the host neither reads a number nor waits. A rank's part
// of a sum over ranks is written by the merge of its chunks (batch_norm_merge.hpp). The number of
// values over all ranks stays in the GPU's memory, so backward sums it again. It ends a message, so
// that the channels' numbers are aligned.
#pragma once

#include <cmath>
#include <cstddef>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/batch_norm_merge.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// What a rank without samples adds to a message.
struct no_sums_op {
  double* message;

  CORDEE_DEVICE void operator()(std::size_t i) const { message[i] = 0; }
};

/// mean <- m,  variance <- d_r + n_r (m_r - m)^2, from the unbiased variance.
struct own_deviation_op {
  static constexpr std::size_t numbers_per_thread = 1;
  std::size_t channels;
  double count;  // n_r
  const double* message;
  double *mean, *variance;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const double shared_mean = message[c] / message[channels];
    const double difference = mean[c] - shared_mean;
    variance[c] = variance[c] * (count > 1 ? count - 1 : count) + count * difference * difference;
    mean[c] = shared_mean;
  }
};

/// Lane c's coefficients, of padding from its own variance, and the running statistics, which move
/// towards m and the unbiased variance v N / (N - 1).
template <class Real>
struct enqueued_moments_op {
  static constexpr std::size_t numbers_per_thread = 1;
  std::size_t channels;
  const double* message;
  const Real* gamma;
  Real* saved;
  running_statistics_op<Real> running;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_coefficients<Real> row(saved, running.lanes, 0);
    const double count = message[channels], mean = running.mean[c];
    double variance = running.variance[c];
    if (c < channels) variance /= count;
    const double inverse = 1 / std::sqrt(variance + batch_norm_problem::epsilon);
    row.mean[c] = static_cast<Real>(mean);
    row.inv_std[c] = static_cast<Real>(inverse);
    row.scale[c] = static_cast<Real>(static_cast<double>(gamma[c]) * inverse);
    if (count > 1) variance *= count / (count - 1);
    if (c < channels) running.move(c, mean, variance, 1);
  }
};

/// The statistics over all ranks. `message` is the sum's, (channels, 1), with this rank's part;
/// mean and unbiased variance, (lanes) each, are this rank's, of `count` values, and overwritten.
template <class Real, GpuStream S>
void enqueue_moments(const batch_statistics<Real>& to, std::size_t lanes, double count,
                     double* message, double* mean, double* variance,
                     const statistics_allreduce& combine, S s) {
  combine.enqueue(combine.context, message, 1 + to.channels, &s);
  for_each(s, to.channels, own_deviation_op{to.channels, count, message, mean, variance});
  combine.enqueue(combine.context, variance, to.channels, &s);
  for_each(
      s, lanes,
      enqueued_moments_op<Real>{to.channels,
                                message,
                                to.gamma,
                                to.saved,
                                {1, lanes, mean, variance, to.running_mean, to.running_variance}});
}

/// The part of a rank without samples in a sum of `size` numbers over ranks.
template <GpuStream S>
void enqueue_no_sums(std::size_t size, const statistics_allreduce& combine, S s) {
  const device::stream_buffer<double, S> message(s, size);
  for_each(s, size, no_sums_op{message.data()});
  combine.enqueue(combine.context, message.data(), size, &s);
}

/// Lane c's coefficients of dx, from the sums over all ranks; of padding from its own.
template <class Real>
struct enqueued_sums_op {
  static constexpr std::size_t numbers_per_thread = 1;
  std::size_t channels, lanes;
  const double *message, *rows;
  const Real* gamma;
  Real* saved;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_coefficients<Real> row(saved, lanes, 0);
    const bool real_channel = c < channels;
    const double shift = real_channel ? message[c] : rows[c],
                 scale = real_channel ? message[channels + c] : rows[lanes + c],
                 count = message[2 * channels];
    const auto inverse = static_cast<double>(row.inv_std[c]);
    const double a = static_cast<double>(gamma[c]) * inverse;
    row.shift[c] = static_cast<Real>(a * shift / count);
    row.slope[c] = static_cast<Real>(a * scale / count * inverse);
  }
};

/// Replaces the coefficients of dx by those of the sums over all ranks. `message` is the sum's,
/// (channels, channels, 1), with this rank's part; rows (2, lanes) are this rank's sums.
template <class Real, GpuStream S>
void enqueue_sums(std::size_t channels, std::size_t lanes, const Real* gamma, Real* saved,
                  double* message, const double* rows, const statistics_allreduce& combine, S s) {
  combine.enqueue(combine.context, message, 1 + 2 * channels, &s);
  for_each(s, lanes, enqueued_sums_op<Real>{channels, lanes, message, rows, gamma, saved});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
