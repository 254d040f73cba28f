// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation (Ioffe and Szegedy, 2015), fused with what follows it, over ghost groups
// (Hoffer et al., 2017) and, through a hook, over groups of ranks (Ying et al., 2018).
//
//   m = sum(x) / N,  v = sum((x - m)^2) / N,  h = (x - m) / sqrt(v + eps),  y = f(gamma h + beta)
//   dbeta = sum(dy),  dgamma = sum(dy h),  dx = gamma / sqrt(v + eps) (dy - dbeta/N - h dgamma/N)
//
// Every sample gives its own mean and squared deviations, and these are merged in double precision
// in the order of the samples (Chan et al., 1979): nothing cancels, and no bit depends on the
// number of workers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include <cordee/core/error.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/batch_norm_block.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/lanewise.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// The rows of one group's table. `centre` and `inverse` are written forward, the others are the
/// coefficients of the pass that is under way.
template <class Real>
struct batch_norm_rows {
  Real *centre, *inverse, *scale, *shift, *slope;

  constexpr batch_norm_rows(Real* table, std::size_t lanes, std::size_t group)
      : centre(table + group * 5 * lanes),
        inverse(centre + lanes),
        scale(inverse + lanes),
        shift(scale + lanes),
        slope(shift + lanes) {}
};

/// The lanes first .. last-1 of a layer, and how many of them are channels.
struct lane_range {
  std::size_t first, last, channels_end;

  lane_range(const batch_norm_problem& at, std::size_t from, std::size_t to)
      : first(from),
        last(to),
        channels_end(std::max(from, std::min(to, static_cast<std::size_t>(at.at.channels)))) {}
};

/// One group's mean and variance from its samples' (mean, squared deviations), and the count they
/// stand for. The hook is called twice: with (count, sums), and with the squared deviations about
/// the mean that the sums gave; the lanes are then all.
inline double merge_moments(const batch_norm_problem& at, const lane_range& of, std::size_t first,
                            std::size_t last, const batch_norm_sums& of_samples,
                            const combine_sums& combine) {
  const auto channels = static_cast<std::size_t>(at.at.channels);
  const auto pixels = static_cast<double>(at.at.pixels());
  double count = static_cast<double>(last - first) * pixels;
  double *message = of_samples.message, *mean = message + 1, *variance = mean + of_samples.row;
  std::fill(mean + of.channels_end, mean + of.last, 0.0);
  std::fill(variance + of.channels_end, variance + of.last, 0.0);
  lanewise<double>(of.first, of.channels_end, [=](auto c) {
    auto sum = c.zero();
    for (std::size_t n = first; n < last; ++n) sum += c(of_samples.first(n)) * pixels;
    c.put(mean, sum);
  });
  if (combine) {
    message[0] = count;
    combine({message, 1 + channels});
    count = message[0];
  }
  const double share = count > 0 ? 1 / count : 0;
  lanewise<double>(of.first, of.channels_end, [=](auto c) {
    const auto centre = c(mean) * share;
    auto sum = c.zero();
    for (std::size_t n = first; n < last; ++n) {
      const auto away = c(of_samples.first(n)) - centre;
      sum += c(of_samples.second(n)) + pixels * away * away;
    }
    c.put(mean, centre);
    c.put(variance, sum);
  });
  combine({variance, channels});
  lanewise<double>(of.first, of.channels_end,
                   [=](auto c) { c.put(variance, c(variance) * share); });
  return count;
}

/// y <- f((x - centre) scale + beta (+ residual)) for a sample's block, with its group's rows.
template <class Real, int V, class Epilogue>
void apply_row(const batch_norm_problem& at, std::size_t group_size,
               const batch_norm_tensors<Real>& t, const Real* residual, std::size_t n,
               std::size_t b) {
  const std::size_t lanes = at.lanes_of(V), pixels = at.at.pixels();
  const batch_norm_rows<Real> row(t.saved, lanes, n / group_size);
  const std::size_t here = (n * lanes + b * V) * pixels, c = b * V;
  block_apply<Real, V, Epilogue>(pixels, t.x + here, row.centre + c, row.scale + c, t.beta + c,
                                 behind(residual, here), t.y + here);
}

/// The rows that forward applies, and the step of the running statistics, from the samples'
/// moments.
template <class Real>
double rows_of_batch(const batch_norm_problem& at, int samples, std::size_t lanes,
                     const lane_range& of, const batch_norm_tensors<Real>& t,
                     const batch_norm_sums& of_samples, Real* running_mean, Real* running_variance,
                     const combine_sums& combine) {
  const std::size_t size = at.group_size(samples), total = static_cast<std::size_t>(samples);
  if (samples == 0) return merge_moments(at, of, 0, 0, of_samples, combine);  // others wait for us

  const std::size_t groups = at.groups(samples);
  const double take = at.momentum / static_cast<double>(groups);
  double count = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    const batch_norm_rows<Real> row(t.saved, lanes, g);
    const std::size_t last = std::min((g + 1) * size, total);
    count = merge_moments(at, of, g * size, last, of_samples, combine);
    const double unbias = count > 1 ? count / (count - 1) : 1;
    const double keep = g == 0 ? 1 - at.momentum : 1;
    const double *mean = of_samples.message + 1, *variance = mean + of_samples.row;
    lanewise<double>(of.first, of.channels_end, [=](auto c) {
      c.put(running_mean, keep * c(running_mean) + take * c(mean));
      c.put(running_variance, keep * c(running_variance) + take * (unbias * c(variance)));
    });
    lanewise<double>(of.first, of.last, [=, gamma = t.gamma](auto c) {
      const auto inverse = 1.0 / c.root(c(variance) + batch_norm_problem::epsilon);
      c.put(row.centre, c(mean));
      c.put(row.inverse, inverse);
      c.put(row.scale, c(gamma) * inverse);
    });
  }
  return count;
}

/// dgamma and dbeta from the samples' sums, and the rows of dx = scale g - shift - (x - centre)
/// slope.
template <class Real>
void rows_of_gradient(const batch_norm_problem& at, int samples, std::size_t lanes,
                      const lane_range& of, const batch_norm_tensors<Real>& t,
                      const batch_norm_sums& of_samples, double count, Real* dgamma, Real* dbeta,
                      into mode, const combine_sums& combine) {
  const std::size_t size = at.group_size(samples), total = static_cast<std::size_t>(samples);
  const auto channels = static_cast<std::size_t>(at.at.channels);
  double *shift = of_samples.message, *scale = shift + channels;
  if (mode == into::overwrite) {
    std::fill(dgamma + of.first, dgamma + of.channels_end, Real{0});
    std::fill(dbeta + of.first, dbeta + of.channels_end, Real{0});
  }
  const std::size_t groups = std::max(at.groups(samples), std::size_t{1});  // none: others wait
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t first = g * size, last = std::min(first + size, total);
    lanewise<double>(of.first, of.channels_end, [=](auto c) {
      auto g = c.zero(), gh = c.zero();
      for (std::size_t n = first; n < last; ++n) {
        g += c(of_samples.first(n));
        gh += c(of_samples.second(n));
      }
      c.put(dgamma, c(dgamma) + gh);
      c.put(dbeta, c(dbeta) + g);
      c.put(shift, g);
      c.put(scale, gh);
    });
    combine({shift, 2 * channels});
    if (samples == 0) return;
    const batch_norm_rows<Real> row(t.saved, lanes, g);
    const double values = combine || count == at.constant ? count
                                                          : static_cast<double>(last - first) *
                                                                static_cast<double>(at.at.pixels());
    lanewise<double>(of.first, of.channels_end, [=, gamma = t.gamma](auto c) {
      const auto inverse = c(row.inverse), a = c(gamma) * inverse;
      c.put(row.scale, a);
      c.put(row.shift, a * c(shift) / values);
      c.put(row.slope, a * c(scale) / values * inverse);
    });
    Real* const rows[] = {row.scale, row.shift, row.slope};
    for (Real* padding : rows) std::fill(padding + of.channels_end, padding + of.last, Real{0});
  }
}

}  // namespace detail

/// Training: normalises by the batch and moves the running statistics towards it, towards the mean
/// of the groups' where there are several. Returns the number of values a channel's statistics
/// stand for over all ranks, which backward wants back.
template <class Real, int V, class Epilogue>
double batch_norm_forward(const batch_norm_problem& at, int samples,
                          const batch_norm_tensors<Real>& t, const Real* residual,
                          Real* running_mean, Real* running_variance, const combine_sums& combine,
                          cpu::stream s) {
  expects(!combine || at.groups(samples) <= 1,
          "batch_norm: statistics shared by ranks are taken over whole batches; use group 0");
  const std::size_t lanes = at.lanes_of(V), pixels = at.at.pixels(), size = at.group_size(samples);
  const batch_norm_sums moments(at, samples, V, t.scratch);
  double count = 0;
  detail::for_each_block(samples, lanes / V, s, [&](std::size_t n, std::size_t b) {
    const std::size_t c = b * V;
    detail::block_moments<Real, V>(pixels, t.x + (n * lanes + c) * pixels, moments.first(n) + c,
                                   moments.second(n) + c);
  });
  detail::for_ranges_of_blocks<V>(
      lanes / V, static_cast<bool>(combine), s, [&](std::size_t first, std::size_t last) {
        const detail::lane_range of(at, first * V, last * V);
        const double n = detail::rows_of_batch(at, samples, lanes, of, t, moments, running_mean,
                                               running_variance, combine);
        if (first == 0) count = n;  // by one worker: it is the same for all
      });
  detail::for_each_block(samples, lanes / V, s, [&](std::size_t n, std::size_t b) {
    detail::apply_row<Real, V, Epilogue>(at, size, t, residual, n, b);
  });
  return count;
}

/// Evaluation, and training with frozen statistics: normalises by the running ones.
template <class Real, int V, class Epilogue>
void batch_norm_evaluate(const batch_norm_problem& at, int samples,
                         const batch_norm_tensors<Real>& t, const Real* residual,
                         const Real* running_mean, const Real* running_variance, cpu::stream s) {
  const std::size_t lanes = at.lanes_of(V);
  const detail::batch_norm_rows<Real> row(t.saved, lanes, 0);
  for (std::size_t c = 0; c < lanes; ++c) {
    const bool padding = c >= static_cast<std::size_t>(at.at.channels);
    row.centre[c] = padding ? Real{0} : running_mean[c];
    const double variance = padding ? 1.0 : static_cast<double>(running_variance[c]);
    const double deviation = std::sqrt(variance + at.epsilon);
    row.inverse[c] = static_cast<Real>(1 / deviation);
    row.scale[c] = static_cast<Real>(static_cast<double>(t.gamma[c]) / deviation);
  }
  const auto one_group = static_cast<std::size_t>(std::max(samples, 1));
  detail::for_each_block(samples, lanes / V, s, [&](std::size_t n, std::size_t b) {
    detail::apply_row<Real, V, Epilogue>(at, one_group, t, residual, n, b);
  });
}

/// dx from dy, which may be the same memory unless a residual was added: then dy becomes what the
/// residual receives. dgamma and dbeta stay this rank's sums, for they go through the reducer; the
/// sums inside dx are those of all ranks that shared statistics. Behind batch_norm_evaluate `count`
/// is `constant`, the group 0 and nothing shared: no number moves statistics, and dx = dy a.
template <class Real, int V, class Epilogue>
void batch_norm_backward(const batch_norm_problem& at, int samples,
                         const batch_norm_tensors<Real>& t, double count, Real* dy, Real* dx,
                         Real* dgamma, Real* dbeta, into mode, const combine_sums& combine,
                         cpu::stream s) {
  const std::size_t lanes = at.lanes_of(V), pixels = at.at.pixels(), size = at.group_size(samples);
  const batch_norm_sums sums(at, samples, V, t.scratch);
  // Where a residual was added dy is masked already.
  using rest =
      std::conditional_t<std::same_as<Epilogue, epilogue::relu>, epilogue::relu, epilogue::store>;
  detail::for_each_block(samples, lanes / V, s, [&](std::size_t n, std::size_t b) {
    const detail::batch_norm_rows<Real> row(t.saved, lanes, n / size);
    const std::size_t c = b * V, here = (n * lanes + c) * pixels;
    detail::block_sums<Real, V, Epilogue>(pixels, t.x + here, t.y + here, dy + here, row.centre + c,
                                          row.inverse + c, sums.first(n) + c, sums.second(n) + c);
  });
  detail::for_ranges_of_blocks<V>(lanes / V, static_cast<bool>(combine), s,
                                  [&](std::size_t first, std::size_t last) {
                                    const detail::lane_range of(at, first * V, last * V);
                                    detail::rows_of_gradient(at, samples, lanes, of, t, sums, count,
                                                             dgamma, dbeta, mode, combine);
                                  });
  detail::for_each_block(samples, lanes / V, s, [&](std::size_t n, std::size_t b) {
    const detail::batch_norm_rows<Real> row(t.saved, lanes, n / size);
    const std::size_t c = b * V, here = (n * lanes + c) * pixels;
    detail::block_gradient<Real, V, rest>(pixels, t.x + here, t.y + here, dy + here, row.centre + c,
                                          row.scale + c, row.shift + c, row.slope + c, dx + here);
  });
}

}  // namespace cordee::inline CORDEE_ABI
