// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation (Ioffe and Szegedy, 2015), fused with its epilogue, over ghost batches
// (Hoffer et al., 2017) and, through a hook, over groups of ranks (Ying et al., 2018).
//
//   m = sum(x) / N,  v = sum((x - m)^2) / N,  h = (x - m) / sqrt(v + eps),  y = f(gamma h + beta)
//   dbeta = sum(dy),  dgamma = sum(dy h),  dx = gamma / sqrt(v + eps) (dy - dbeta/N - h dgamma/N)
//
// The mean and the squared deviations are computed per sample and merged in double precision in the
// order of the samples (Chan et al., 1979): nothing cancels, and no bit depends on the number of
// workers.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/cpu/batch_norm_block.hpp>
#include <cordee/ops/cpu/simd_for_each.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The lanes first .. last-1 of a layer, of which those from channels_end on are padding.
struct lane_range {
  std::size_t first, last, channels_end;

  lane_range(const batch_norm_problem& p, std::size_t from, std::size_t to)
      : first(from),
        last(to),
        channels_end(std::max(from, std::min(to, static_cast<std::size_t>(p.in.channels)))) {}
};

/// Writes the mean and the variance of samples first .. last-1 to the message of `sums`, whose rows
/// hold each sample's (mean, squared deviations). Returns the number of values per channel. With
/// a hook `range` must hold all lanes; it is called twice: with (count, sums), and with the squared
/// deviations about the mean that these give.
inline double merge_moments(const batch_norm_problem& p, const lane_range& range, std::size_t first,
                            std::size_t last, const batch_norm_sums& sums,
                            const statistics_allreduce& allreduce) {
  const auto channels = static_cast<std::size_t>(p.in.channels);
  const auto pixels = static_cast<double>(p.in.pixels());
  double count = static_cast<double>(last - first) * pixels;
  double* message = sums.message;        // (1 + 2 pitch): count, then:
  double* mean = message + 1;            // (pitch)
  double* variance = mean + sums.pitch;  // (pitch)
  std::fill(mean + range.channels_end, mean + range.last, 0.0);
  std::fill(variance + range.channels_end, variance + range.last, 0.0);
  simd_for_each<double>(range.first, range.channels_end, [=](auto c) {
    auto sum = c.zero();
    for (std::size_t n = first; n < last; ++n) sum += c(sums.first(n)) * pixels;
    c.put(mean, sum);
  });
  if (allreduce) {
    message[0] = count;
    allreduce({message, 1 + channels});
    count = message[0];
  }
  const double share = count > 0 ? 1 / count : 0;
  simd_for_each<double>(range.first, range.channels_end, [=](auto c) {
    const auto center = c(mean) * share;
    auto sum = c.zero();
    for (std::size_t n = first; n < last; ++n) {
      const auto offset = c(sums.first(n)) - center;
      sum += c(sums.second(n)) + pixels * offset * offset;
    }
    c.put(mean, center);
    c.put(variance, sum);
  });
  allreduce({variance, channels});
  simd_for_each<double>(range.first, range.channels_end,
                        [=](auto c) { c.put(variance, c(variance) * share); });
  return count;
}

/// y <- f((x - mean) scale + beta (+ residual)) for block b of sample n.
template <class N, int V, class Epilogue>
void normalize_sample_block(const batch_norm_problem& p, std::size_t ghost_batch_size,
                            const batch_norm_tensors<N, precision::wide<N>>& t, const N* residual,
                            std::size_t n, std::size_t b) {
  const std::size_t lanes = p.padded_channels(V), pixels = p.in.pixels();
  const batch_norm_coefficients<precision::wide<N>> row(t.saved, lanes, n / ghost_batch_size);
  const std::size_t offset = (n * lanes + b * V) * pixels, c = b * V;
  normalize_block<N, V, Epilogue>(pixels, t.x + offset, row.mean + c, row.scale + c, t.beta + c,
                                  offset_or_null(residual, offset), t.y + offset);
}

/// From the samples' moments: the coefficients of normalize_sample_block, and the step of the
/// running statistics, which a rank without samples takes with the ranks that share its statistics,
/// unless a channel's are not finite: its own gradient is, zero, so no check would undo the step.
/// Returns the number of values per channel of the last ghost batch.
template <class N, class Real>
double update_statistics(const batch_norm_problem& p, int samples, std::size_t lanes,
                         const lane_range& range, const batch_norm_tensors<N, Real>& t,
                         const batch_norm_sums& sums, Real* running_mean, Real* running_variance,
                         const statistics_allreduce& allreduce) {
  const std::size_t size = p.ghost_batch_size(samples), total = static_cast<std::size_t>(samples);
  // At least one, as allreduce is collective.
  const std::size_t batches = std::max(p.ghost_batches(samples), std::size_t{1});
  const double momentum = p.moving_average ? p.momentum : 1;
  const double take = momentum / static_cast<double>(batches);
  double count = 0;
  for (std::size_t g = 0; g < batches; ++g) {
    const batch_norm_coefficients<Real> row(t.saved, lanes, g);
    const std::size_t last = std::min((g + 1) * size, total);
    count = merge_moments(p, range, g * size, last, sums, allreduce);
    if (count == 0) return 0;  // on no rank is a sample
    const double unbias = p.moving_average && count > 1 ? count / (count - 1) : 1;
    const double keep = g == 0 ? 1 - momentum : 1;
    const double *mean = sums.message + 1, *variance = mean + sums.pitch;
    // Moved by the vectors of other ranks, for their bits, so what is not finite is put back.
    if (samples == 0) {  // kept in rows that only backward of samples uses
      std::copy(running_mean + range.first, running_mean + range.channels_end,
                row.shift + range.first);
      std::copy(running_variance + range.first, running_variance + range.channels_end,
                row.slope + range.first);
    }
    simd_for_each<double>(range.first, range.channels_end, [=](auto c) {
      c.put(running_mean, keep * c(running_mean) + take * c(mean));
      c.put(running_variance, keep * c(running_variance) + take * (unbias * c(variance)));
    });
    for (std::size_t c = range.first; samples == 0 && c < range.channels_end; ++c)
      if (!core::isfinite(mean[c]) || !core::isfinite(variance[c])) {
        running_mean[c] = row.shift[c];
        running_variance[c] = row.slope[c];
      }
    simd_for_each<double>(range.first, range.last, [=, gamma = t.gamma](auto c) {
      const auto inv_std = 1.0 / c.root(c(variance) + batch_norm_problem::epsilon);
      c.put(row.mean, c(mean));
      c.put(row.inv_std, inv_std);
      c.put(row.scale, c(gamma) * inv_std);
    });
  }
  return count;
}

/// From the samples' sums (g, g h): dgamma and dbeta, and the coefficients of
/// dx = scale g - shift - (x - mean) slope.
template <class N, class Real>
void reduce_gradients(const batch_norm_problem& p, int samples, std::size_t lanes,
                      const lane_range& range, const batch_norm_tensors<N, Real>& t,
                      const batch_norm_sums& sums, double count, Real* dgamma, Real* dbeta,
                      write_mode mode, const statistics_allreduce& allreduce) {
  const std::size_t size = p.ghost_batch_size(samples), total = static_cast<std::size_t>(samples);
  const auto channels = static_cast<std::size_t>(p.in.channels);
  double* shift = sums.message;      // (channels)
  double* scale = shift + channels;  // (channels)
  for (Real* const gradient : {dgamma, dbeta})
    if (gradient != nullptr && mode == write_mode::overwrite)
      std::fill(gradient + range.first, gradient + range.channels_end, Real{0});
  // At least one, as allreduce is collective.
  const std::size_t batches = std::max(p.ghost_batches(samples), std::size_t{1});
  for (std::size_t batch = 0; batch < batches; ++batch) {
    const std::size_t first = batch * size, last = std::min(first + size, total);
    simd_for_each<double>(range.first, range.channels_end, [=](auto c) {
      auto g = c.zero(), gh = c.zero();
      for (std::size_t n = first; n < last; ++n) {
        g += c(sums.first(n));
        gh += c(sums.second(n));
      }
      if (dgamma != nullptr) c.put(dgamma, c(dgamma) + gh);
      if (dbeta != nullptr) c.put(dbeta, c(dbeta) + g);
      c.put(shift, g);
      c.put(scale, gh);
    });
    allreduce({shift, 2 * channels});
    if (samples == 0) return;
    const batch_norm_coefficients<Real> row(t.saved, lanes, batch);
    const double values =
        allreduce || count == p.frozen_count
            ? count
            : static_cast<double>(last - first) * static_cast<double>(p.in.pixels());
    simd_for_each<double>(range.first, range.channels_end, [=, gamma = t.gamma](auto c) {
      const auto inv_std = c(row.inv_std), a = c(gamma) * inv_std;
      c.put(row.scale, a);
      c.put(row.shift, a * c(shift) / values);
      c.put(row.slope, a * c(scale) / values * inv_std);
    });
    Real* const rows[] = {row.scale, row.shift, row.slope};
    for (Real* padding : rows)
      std::fill(padding + range.channels_end, padding + range.last, Real{0});
  }
}

/// y, by the coefficients of batch_norm_forward, or, with ghost_batch 0, of batch_norm_evaluate, in
/// `t.saved`, which batch_norm_backward has not changed yet.
template <class N, int V, class Epilogue>
void batch_norm_normalize(const batch_norm_problem& p, int samples,
                          const batch_norm_tensors<N, precision::wide<N>>& t,
                          const N* residual,  // (samples, C / V, H, W, V), or null
                          cpu::stream s) {
  const std::size_t size = p.ghost_batch_size(samples);
  for_each_block(samples, p.padded_channels(V) / V, s, [&](std::size_t n, std::size_t b) {
    normalize_sample_block<N, V, Epilogue>(p, size, t, residual, n, b);
  });
}

/// Training: normalises with the statistics of the batch and moves the running statistics towards
/// them, or towards the mean over its ghost batches. Returns the number of values per channel that
/// the statistics are taken over, on all ranks together, with ghost batches those of the last: the
/// `count` of batch_norm_backward.
template <class N, int V, class Epilogue>
double batch_norm_forward(const batch_norm_problem& p, int samples,
                          const batch_norm_tensors<N, precision::wide<N>>& t,
                          const N* residual,                 // (samples, C / V, H, W, V), or null
                          precision::wide<N>* running_mean,  // (C)
                          precision::wide<N>* running_variance,  // (C)
                          const statistics_allreduce& allreduce, cpu::stream s) {
  expects(!allreduce || p.ghost_batches(samples) <= 1,
          "batch_norm: statistics shared by ranks are taken over whole batches; use "
          "ghost_batch = 0");
  const std::size_t lanes = p.padded_channels(V), pixels = p.in.pixels(),
                    size = p.ghost_batch_size(samples);
  const batch_norm_sums moments(p, samples, V, t.scratch);
  double count = 0;
  in_two_passes<V>(
      samples, lanes / V, static_cast<bool>(allreduce), s,
      [&](std::size_t n, std::size_t b) {
        const std::size_t c = b * V;
        block_moments<N, V>(pixels, t.x + (n * lanes + c) * pixels, moments.first(n) + c,
                            moments.second(n) + c);
      },
      [&](std::size_t first, std::size_t last) {
        const lane_range range(p, first * V, last * V);
        const double n = update_statistics(p, samples, lanes, range, t, moments, running_mean,
                                           running_variance, allreduce);
        if (first == 0) count = n;  // the same for every range: one worker writes it
      },
      [&](std::size_t n, std::size_t b) {
        normalize_sample_block<N, V, Epilogue>(p, size, t, residual, n, b);
      });
  return count;
}

/// Evaluation, and training with frozen statistics: normalises with the running statistics.
template <class N, int V, class Epilogue>
void batch_norm_evaluate(const batch_norm_problem& p, int samples,
                         const batch_norm_tensors<N, precision::wide<N>>& t,
                         const N* residual,  // (samples, C / V, H, W, V), or null
                         const precision::wide<N>* running_mean,      // (C)
                         const precision::wide<N>* running_variance,  // (C)
                         cpu::stream s) {
  using Real = precision::wide<N>;
  const std::size_t lanes = p.padded_channels(V);
  const batch_norm_coefficients<Real> row(t.saved, lanes, 0);
  for (std::size_t c = 0; c < lanes; ++c) {
    const bool padding = c >= static_cast<std::size_t>(p.in.channels);
    row.mean[c] = padding ? Real{0} : running_mean[c];
    const double variance = padding ? 1.0 : static_cast<double>(running_variance[c]);
    const double deviation = core::sqrt(variance + p.epsilon);
    row.inv_std[c] = static_cast<Real>(1 / deviation);
    row.scale[c] = static_cast<Real>(static_cast<double>(t.gamma[c]) / deviation);
  }
  batch_norm_normalize<N, V, Epilogue>({p.in, 0}, samples, t, residual, s);
}

/// Computes dx from dy. A ReLU masks dy, which so becomes the gradient of a residual; dx may be dy
/// where there is none. dgamma and dbeta are this rank's sums, since the reducer adds them; the
/// sums inside dx are over all ranks that share statistics. A null dgamma or dbeta is not written.
/// After batch_norm_evaluate: requires `count` = frozen_count, ghost_batch 0 and no hook; then
/// dx = gamma / sqrt(v + eps) dy.
template <class N, int V, class Epilogue>
void batch_norm_backward(const batch_norm_problem& p, int samples,
                         const batch_norm_tensors<N, precision::wide<N>>& t, double count,
                         N* dy,                       // (samples, C / V, H, W, V)
                         N* dx,                       // (samples, C / V, H, W, V)
                         precision::wide<N>* dgamma,  // (C), or null
                         precision::wide<N>* dbeta,   // (C), or null
                         write_mode mode, const statistics_allreduce& allreduce, cpu::stream s) {
  using Real = precision::wide<N>;
  const std::size_t lanes = p.padded_channels(V), pixels = p.in.pixels(),
                    size = p.ghost_batch_size(samples);
  const batch_norm_sums sums(p, samples, V, t.scratch);
  in_two_passes<V>(
      samples, lanes / V, static_cast<bool>(allreduce), s,
      [&](std::size_t n, std::size_t b) {
        const batch_norm_coefficients<Real> row(t.saved, lanes, n / size);
        const std::size_t c = b * V, offset = (n * lanes + c) * pixels;
        block_gradient_sums<N, V, Epilogue>(pixels, t.x + offset, t.y + offset, dy + offset,
                                            row.mean + c, row.inv_std + c, sums.first(n) + c,
                                            sums.second(n) + c);
      },
      [&](std::size_t first, std::size_t last) {
        const lane_range range(p, first * V, last * V);
        reduce_gradients(p, samples, lanes, range, t, sums, count, dgamma, dbeta, mode, allreduce);
      },
      [&](std::size_t n, std::size_t b) {
        const batch_norm_coefficients<Real> row(t.saved, lanes, n / size);
        const std::size_t c = b * V, offset = (n * lanes + c) * pixels;
        block_input_gradient<N, V>(pixels, t.x + offset, dy + offset, row.mean + c, row.scale + c,
                                   row.shift + c, row.slope + c, dx + offset);
      });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
