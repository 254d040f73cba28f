// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization on a GPU with statistics shared by ranks (Ying et al., 2018). A rank's part
// of a sum over ranks is written by the merge of its chunks (batch_norm_merge.hpp). Forward sums
// once over ranks (moments_message.hpp); in an fp64 network twice, of rank r's n_r values with mean
// m_r and squared deviations d_r:
//
//   N = sum(n_r),   m = sum(n_r m_r) / N,   v = sum(d_r + n_r (m_r - m)^2) / N
//
// Where the sum is work of the stream, the host neither reads a number nor waits. The number of
// values over all ranks stays in the GPU's memory, so backward sums it again.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <cordee/core/math.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/batch_norm_merge.hpp>
#include <cordee/ops/gpu/moments_message.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Replaces `size` numbers of the GPU's memory by their sums over ranks: as work of the stream
/// where `combine` can, otherwise by way of the host, which blocks on the stream.
template <GpuStream S>
void sum_over_ranks(double* numbers, std::size_t size, const statistics_allreduce& combine, S s) {
  if (combine.enqueue != nullptr) return combine.enqueue(combine.context, numbers, size, &s);
  std::vector<double> host(size);
  s.copy(host.data(), numbers, size * sizeof(double));
  s.finish();
  combine(host);
  s.copy(numbers, host.data(), size * sizeof(double));
}

/// The numbers of a rank without samples: its part of a message, its statistics.
struct no_sums_op {
  double* message;

  CORDEE_DEVICE void operator()(std::size_t i) const { message[i] = 0; }
};

/// The part of a rank without samples in a sum of `size` numbers over ranks.
template <GpuStream S>
void share_no_sums(std::size_t size, const statistics_allreduce& combine, S s) {
  const device::stream_buffer<double, S> message(s, size);
  for_each(s, size, no_sums_op{message.data()});
  sum_over_ranks(message.data(), size, combine, s);
}

/// mean <- m,  variance <- d_r + n_r (m_r - m)^2, from the unbiased variance.
struct own_deviation_op {
  static constexpr std::size_t numbers_per_thread = 1;
  moments_message<double> message;
  double count;  // n_r
  double *mean, *variance;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const double shared_mean = message.mean(c), difference = mean[c] - shared_mean;
    variance[c] = variance[c] * (count > 1 ? count - 1 : count) + count * difference * difference;
    mean[c] = shared_mean;
  }
};

/// Lane c's coefficients, of padding from its own statistics, and the running statistics, which
/// move towards m and the unbiased variance v N / (N - 1) where any rank has samples; on a rank
/// without them, not towards what is not finite: its gradient is, so nothing would undo the step.
template <class Real>
struct shared_moments_op {
  static constexpr std::size_t numbers_per_thread = 1;
  moments_message<Real> message;
  const Real* gamma;
  Real* saved;
  running_statistics_op<Real> running;
  bool has_samples;  // of this rank

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_coefficients<Real> row(saved, running.lanes, 0);
    const bool is_padding = c >= message.channels;
    double mean = 0, variance = 0;
    if constexpr (moments_message<Real>::has_squares) {
      mean = is_padding ? running.mean[c] : message.mean(c);
      variance = is_padding ? running.variance[c] : message.variance(c);
    } else {  // of a second sum
      mean = running.mean[c];
      variance = is_padding ? running.variance[c] : running.variance[c] / message.count();
    }
    const double inverse = 1 / std::sqrt(variance + batch_norm_problem::epsilon);
    row.mean[c] = static_cast<Real>(mean);
    row.inv_std[c] = static_cast<Real>(inverse);
    row.scale[c] = static_cast<Real>(static_cast<double>(gamma[c]) * inverse);
    const double count = message.count();
    if (count > 1) variance *= count / (count - 1);
    // The variance is not finite where the mean is not.
    const bool moves = count > 0 && (has_samples || core::isfinite(variance));
    if (!is_padding && moves) running.move(c, mean, variance, 1);
  }
};

/// The statistics over all ranks. `message` is the sum's, with this rank's part; mean and unbiased
/// variance, (lanes) each, are this rank's, of `count` values, and may be overwritten.
template <class Real, GpuStream S>
void share_moments(const batch_statistics<Real>& to, std::size_t lanes, double count,
                   const moments_message<Real>& message, double* mean, double* variance,
                   const statistics_allreduce& combine, S s) {
  sum_over_ranks(message.numbers, message.size(), combine, s);
  if constexpr (!moments_message<Real>::has_squares) {
    for_each(s, to.channels, own_deviation_op{message, count, mean, variance});
    sum_over_ranks(variance, to.channels, combine, s);
  }
  for_each(s, lanes,
           shared_moments_op<Real>{message,
                                   to.gamma,
                                   to.saved,
                                   {1, lanes, mean, variance, to.running_mean, to.running_variance},
                                   count > 0});
}
/// The same of a rank without samples: it takes part in the sums, and its running statistics move
/// as on the ranks that have some, bit by bit, where they are finite.
template <class Real, GpuStream S>
void share_no_moments(const batch_statistics<Real>& to, std::size_t lanes,
                      const statistics_allreduce& combine, S s) {
  const moments_message<Real> layout{to.channels, nullptr};
  const std::size_t size = layout.size() + 2 * lanes;
  const device::stream_buffer<double, S> zeros(s, size);
  for_each(s, size, no_sums_op{zeros.data()});
  double* const mean = zeros.data() + layout.size();
  share_moments(to, lanes, 0, {to.channels, zeros.data()}, mean, mean + lanes, combine, s);
}

/// Lane c's coefficients of dx, from the sums over all ranks; of padding from its own.
template <class Real>
struct shared_sums_op {
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
void share_sums(std::size_t channels, std::size_t lanes, const Real* gamma, Real* saved,
                double* message, const double* rows, const statistics_allreduce& combine, S s) {
  sum_over_ranks(message, 2 * channels + 1, combine, s);
  for_each(s, lanes, shared_sums_op<Real>{channels, lanes, message, rows, gamma, saved});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
