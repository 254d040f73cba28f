// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization on a GPU with statistics shared by ranks (Ying et al., 2018). Over the ranks
// r:
//
//   N = sum(n_r),   m = sum(n_r m_r) / N,   v = sum(d_r + n_r (m_r - m)^2) / N
//
// `combine` runs on the host: two numbers per channel are copied to the host and back, and the host
// blocks on the stream; batch_norm_enqueued.hpp is the same without. A rank without samples
// contributes zeros.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Lane c's coefficients and unbiased variance, from mean and variance over all ranks.
template <class Real>
struct shared_moments_op {
  std::size_t lanes;
  double count;
  const Real* gamma;
  Real* saved;
  const double* mean;
  double* variance;  // in: biased, out: unbiased

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_coefficients<Real> row(saved, lanes, 0);
    const double inverse = 1 / std::sqrt(variance[c] + batch_norm_problem::epsilon);
    row.mean[c] = static_cast<Real>(mean[c]);
    row.inv_std[c] = static_cast<Real>(inverse);
    row.scale[c] = static_cast<Real>(static_cast<double>(gamma[c]) * inverse);
    if (count > 1) variance[c] *= count / (count - 1);
  }
};

/// Lane c's coefficients of dx, from the sums over all ranks.
template <class Real>
struct shared_sums_op {
  std::size_t lanes;
  double count;
  const Real* gamma;
  Real* saved;
  const double *shift, *scale;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_coefficients<Real> row(saved, lanes, 0);
    const auto inverse = static_cast<double>(row.inv_std[c]);
    const double a = static_cast<double>(gamma[c]) * inverse;
    row.shift[c] = static_cast<Real>(a * shift[c] / count);
    row.slope[c] = static_cast<Real>(a * scale[c] / count * inverse);
  }
};

/// Copies (2, lanes) from the device; zeros if `rows` is null.
template <GpuStream S>
std::vector<double> read_two_rows(const double* rows, std::size_t lanes, S s) {
  std::vector<double> host(2 * lanes);
  if (rows == nullptr) return host;
  s.copy(host.data(), rows, host.size() * sizeof(double));
  s.finish();
  return host;
}

/// Replaces this rank's mean and unbiased variance of `own_count` values, rows (2, lanes), by those
/// over all ranks. Returns the number of values over all ranks.
template <class Real, GpuStream S>
double share_moments(std::size_t channels, std::size_t lanes, double own_count, const Real* gamma,
                     Real* saved, double* rows, const statistics_allreduce& combine, S s) {
  std::vector<double> host = read_two_rows(rows, lanes, s), message(1 + channels);
  double *const mean = host.data(), *const variance = mean + lanes;
  message[0] = own_count;
  for (std::size_t c = 0; c < channels; ++c) message[1 + c] = own_count * mean[c];
  combine(message);
  const double count = message[0];
  for (std::size_t c = 0; c < channels; ++c) {
    const double shared_mean = count > 0 ? message[1 + c] / count : 0,
                 difference = mean[c] - shared_mean;
    variance[c] = variance[c] * (own_count > 1 ? own_count - 1 : own_count) +
                  own_count * difference * difference;
    mean[c] = shared_mean;
  }
  combine({variance, channels});
  if (rows == nullptr) return count;
  for (std::size_t c = 0; c < channels; ++c) variance[c] /= count;
  s.copy(rows, host.data(), host.size() * sizeof(double));
  for_each(s, lanes, shared_moments_op<Real>{lanes, count, gamma, saved, rows, rows + lanes});
  return count;
}

/// Replaces this rank's sums, rows (2, lanes), by those over all ranks, of `count` values.
template <class Real, GpuStream S>
void share_sums(std::size_t channels, std::size_t lanes, double count, const Real* gamma,
                Real* saved, double* rows, const statistics_allreduce& combine, S s) {
  std::vector<double> host = read_two_rows(rows, lanes, s), message(2 * channels);
  for (std::size_t c = 0; c < channels; ++c) {
    message[c] = host[c];
    message[channels + c] = host[lanes + c];
  }
  combine(message);
  if (rows == nullptr) return;
  for (std::size_t c = 0; c < channels; ++c) {
    host[c] = message[c];
    host[lanes + c] = message[channels + c];
  }
  s.copy(rows, host.data(), host.size() * sizeof(double));
  for_each(s, lanes, shared_sums_op<Real>{lanes, count, gamma, saved, rows, rows + lanes});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
