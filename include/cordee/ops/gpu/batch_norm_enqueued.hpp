// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization on a GPU with statistics shared by ranks, as work of the stream: the
// equations of batch_norm_ranks.hpp, where the host neither reads a number nor waits. The number of
// values over all ranks stays in the GPU's memory, so backward sums it again. It ends a message, so
// that the channels' numbers are aligned.
#pragma once

#include <cmath>
#include <cstddef>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// message <- (n_r m_r, n_r), (channels, 1); zeros from a rank without samples, whose mean is not
/// read.
struct own_moments_op {
  std::size_t channels;
  double count;
  const double* mean;
  double* message;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    message[i] = i == channels ? count : count > 0 ? count * mean[i] : 0;
  }
};

/// mean <- m,  variance <- d_r + n_r (m_r - m)^2, from the unbiased variance.
struct own_deviation_op {
  static constexpr std::size_t numbers_per_thread = 1;
  std::size_t channels;
  double count;
  const double* message;
  double *mean, *variance;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const double values = message[channels];
    const double shared_mean = values > 0 ? message[c] / values : 0;
    if (count > 0) {
      const double difference = mean[c] - shared_mean;
      variance[c] = variance[c] * (count > 1 ? count - 1 : count) + count * difference * difference;
    } else {
      variance[c] = 0;
    }
    mean[c] = shared_mean;
  }
};

/// Lane c's coefficients, and the unbiased variance v N / (N - 1); of padding as it is.
template <class Real>
struct enqueued_moments_op {
  static constexpr std::size_t numbers_per_thread = 1;
  std::size_t channels, lanes;
  const double* message;
  const Real* gamma;
  Real* saved;
  const double* mean;
  double* variance;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_coefficients<Real> row(saved, lanes, 0);
    const double count = message[channels];
    if (c < channels) variance[c] /= count;
    const double inverse = 1 / std::sqrt(variance[c] + batch_norm_problem::epsilon);
    row.mean[c] = static_cast<Real>(mean[c]);
    row.inv_std[c] = static_cast<Real>(inverse);
    row.scale[c] = static_cast<Real>(static_cast<double>(gamma[c]) * inverse);
    if (count > 1) variance[c] *= count / (count - 1);
  }
};

/// Replaces this rank's mean and unbiased variance of `own_count` values, rows (2, lanes), by those
/// over all ranks. Null rows of a rank without samples, which takes part.
template <class Real, GpuStream S>
void enqueue_moments(std::size_t channels, std::size_t lanes, double own_count, const Real* gamma,
                     Real* saved, double* rows, const statistics_allreduce& combine, S s) {
  const device::stream_buffer<double, S> message(s, 1 + channels),
      unused(s, rows == nullptr ? 2 * lanes : 0);
  double *const mean = rows == nullptr ? unused.data() : rows, *const variance = mean + lanes;
  for_each(s, 1 + channels, own_moments_op{channels, own_count, mean, message.data()});
  combine.enqueue(combine.context, message.data(), 1 + channels, &s);
  for_each(s, channels, own_deviation_op{channels, own_count, message.data(), mean, variance});
  combine.enqueue(combine.context, variance, channels, &s);
  if (rows != nullptr)
    for_each(
        s, lanes,
        enqueued_moments_op<Real>{channels, lanes, message.data(), gamma, saved, mean, variance});
}

/// message <- (sum dy, sum dy h, n_r), (channels, channels, 1).
struct own_sums_op {
  std::size_t channels, lanes;
  double count;
  const double* rows;  // (2, lanes), or null for zeros
  double* message;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t lane = i < channels ? i : i - channels + lanes;
    message[i] = i == 2 * channels ? count : rows == nullptr ? 0 : rows[lane];
  }
};

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

/// Replaces the coefficients of dx by those of the sums over all ranks; rows (2, lanes) are this
/// rank's, null without samples.
template <class Real, GpuStream S>
void enqueue_sums(std::size_t channels, std::size_t lanes, double own_count, const Real* gamma,
                  Real* saved, const double* rows, const statistics_allreduce& combine, S s) {
  const device::stream_buffer<double, S> message(s, 1 + 2 * channels);
  for_each(s, 1 + 2 * channels, own_sums_op{channels, lanes, own_count, rows, message.data()});
  combine.enqueue(combine.context, message.data(), 1 + 2 * channels, &s);
  if (rows != nullptr)
    for_each(s, lanes, enqueued_sums_op<Real>{channels, lanes, message.data(), rows, gamma, saved});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
