// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation on a GPU whose statistics ranks share (Ying et al., 2018).
//
//   N = sum(n_r),  m = sum(n_r m_r) / N,  v = sum(d_r + n_r (m_r - m)^2) / N        over the ranks
//
// The hook is the host's, as ranks meet there: two numbers a channel come down and go up, and the
// host waits for them. A rank without samples says zeros.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <cordee/device/grid.hpp>
#include <cordee/ops/batch_norm.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// Lane c's rows and statistics, from mean and variance over all ranks.
template <class Real>
struct shared_moments_rows {
  std::size_t lanes;
  double count;
  const Real* gamma;
  Real* saved;
  const double* mean;
  double* variance;  // becomes unbiased

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_rows<Real> row(saved, lanes, 0);
    const double inverse = 1 / std::sqrt(variance[c] + batch_norm_problem::epsilon);
    row.centre[c] = static_cast<Real>(mean[c]);
    row.inverse[c] = static_cast<Real>(inverse);
    row.scale[c] = static_cast<Real>(static_cast<double>(gamma[c]) * inverse);
    if (count > 1) variance[c] *= count / (count - 1);
  }
};

/// Lane c's rows of dx, from the sums over all ranks.
template <class Real>
struct shared_sums_rows {
  std::size_t lanes;
  double count;
  const Real* gamma;
  Real* saved;
  const double *shift, *scale;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_rows<Real> row(saved, lanes, 0);
    const auto inverse = static_cast<double>(row.inverse[c]);
    const double a = static_cast<double>(gamma[c]) * inverse;
    row.shift[c] = static_cast<Real>(a * shift[c] / count);
    row.slope[c] = static_cast<Real>(a * scale[c] / count * inverse);
  }
};

/// What two rows of `lanes` on the device say, on the host; zeros where there are none.
template <GridStream S>
std::vector<double> two_rows(const double* rows, std::size_t lanes, S s) {
  std::vector<double> here(2 * lanes);
  if (rows == nullptr) return here;
  s.copy(here.data(), rows, here.size() * sizeof(double));
  s.finish();
  return here;
}

/// From this rank's mean and unbiased variance of `own` values, which are (2, lanes), to those of
/// all; the values that these stand for.
template <class Real, GridStream S>
double share_moments(std::size_t channels, std::size_t lanes, double own, const Real* gamma,
                     Real* saved, double* rows, const combine_sums& combine, S s) {
  std::vector<double> here = two_rows(rows, lanes, s), message(1 + channels);
  double *const mean = here.data(), *const variance = mean + lanes;
  message[0] = own;
  for (std::size_t c = 0; c < channels; ++c) message[1 + c] = own * mean[c];
  combine(message);
  const double count = message[0];
  for (std::size_t c = 0; c < channels; ++c) {
    const double all = count > 0 ? message[1 + c] / count : 0, away = mean[c] - all;
    variance[c] = variance[c] * (own > 1 ? own - 1 : own) + own * away * away;
    mean[c] = all;
  }
  combine({variance, channels});
  if (rows == nullptr) return count;
  for (std::size_t c = 0; c < channels; ++c) variance[c] /= count;
  s.copy(rows, here.data(), here.size() * sizeof(double));
  for_each(s, lanes, shared_moments_rows<Real>{lanes, count, gamma, saved, rows, rows + lanes});
  return count;
}

/// From this rank's sums, which are (2, lanes), to those of all; `count` values in all.
template <class Real, GridStream S>
void share_sums(std::size_t channels, std::size_t lanes, double count, const Real* gamma,
                Real* saved, double* rows, const combine_sums& combine, S s) {
  std::vector<double> here = two_rows(rows, lanes, s), message(2 * channels);
  for (std::size_t c = 0; c < channels; ++c) {
    message[c] = here[c];
    message[channels + c] = here[lanes + c];
  }
  combine(message);
  if (rows == nullptr) return;
  for (std::size_t c = 0; c < channels; ++c) {
    here[c] = message[c];
    here[lanes + c] = message[channels + c];
  }
  s.copy(rows, here.data(), here.size() * sizeof(double));
  for_each(s, lanes, shared_sums_rows<Real>{lanes, count, gamma, saved, rows, rows + lanes});
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
