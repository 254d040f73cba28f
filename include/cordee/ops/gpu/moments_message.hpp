// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What ranks add up for the mean m and the variance v of all their values, on a GPU. From n_r
// values per rank with mean m_r and squared deviations d_r, in fp64:
//
//   N = sum(n_r),   S = sum(n_r m_r),   Q = sum(d_r + n_r m_r^2)
//   m = S / N,      v = max(Q / N - m^2, 0)
//
// The difference cancels. Over R ranks, u = 2^-53: a part of Q is rounded three times, one of S
// once, each sum R - 1 times, each quotient once, and so are the square and the difference. The
// error of S / N counts twice in m^2, and sum(n_r |m_r|) <= N sqrt(m^2 + v) (Cauchy-Schwarz). So
// they are off, to first order in u, by at most
//
//   m:  (R + 1) u sqrt(m^2 + v),      v:  (3R + 7) u (m^2 + v)
//
// With k^2 = (m^2 + v) / v that is (3R + 7) u k^2 of v. Rounding the inputs to fp32 (w = 2^-24) has
// changed v by up to 2 w k + (w k)^2 of v, which is more for k < 2^30 / (3R + 7): 3e7 with 8 ranks,
// 3e5 with 1024. (An fp32 mean leaves (x - m) / sqrt(v) no digit from k = 2^24 on.) A single
// rounding to fp32 in the sums of a chunk's squares, w of v, is more where k^2 < 2^29 / (3R + 7).
//
// An fp64 network's inputs are as exact as these sums: there the deviations about m are a second
// sum over ranks. The origin is 0. Running means, of ranks without samples too, are the same on all
// ranks of a group only where they began so and no rank skips a step by itself, which optimizers do
// that do not need an exact mean: a sum must not rely on them.
#pragma once

#include <concepts>
#include <cstddef>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/chunk_merge.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// A rank's part of the sums over ranks, or the sums, of statistics in Real. n ends it, so that the
/// channels' numbers are aligned.
template <class Real>
struct moments_message {
  static constexpr bool has_squares = !std::same_as<Real, double>;

  std::size_t channels;
  double* numbers;  // n m, d + n m^2, n: (channels, channels, 1); without squares (channels, 1)

  [[nodiscard]] constexpr std::size_t size() const { return (has_squares ? 2 : 1) * channels + 1; }

  /// Of `count` values of channel c with this mean and these squared deviations.
  CORDEE_DEVICE void write(std::size_t c, double count, const channel_pair& of) const {
    const double sum = count * of.first;
    numbers[c] = sum;
    if constexpr (has_squares) numbers[channels + c] = of.second + sum * of.first;
    if (c == 0) numbers[size() - 1] = count;
  }
  [[nodiscard]] CORDEE_DEVICE double count() const { return numbers[size() - 1]; }
  [[nodiscard]] CORDEE_DEVICE double mean(std::size_t c) const { return numbers[c] / count(); }
  /// Biased variance; NaN for a channel with NaN.
  [[nodiscard]] CORDEE_DEVICE double variance(std::size_t c) const
    requires has_squares
  {
    const double center = mean(c), difference = numbers[channels + c] / count() - center * center;
    return difference < 0 ? 0 : difference;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
