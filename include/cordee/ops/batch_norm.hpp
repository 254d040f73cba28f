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
#include <limits>
#include <span>
#include <type_traits>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/batch_norm_block.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {

/// The hook of distributed batch normalisation: replaces the numbers by their sums over the ranks
/// that share statistics. Empty: this rank alone. Every rank of the group calls it equally often,
/// with samples or without.
struct combine_sums {
  void (*call)(void* context, std::span<double> sums) = nullptr;
  void* context = nullptr;

  explicit operator bool() const { return call != nullptr; }
  void operator()(std::span<double> sums) const {
    if (call != nullptr) call(context, sums);
  }
};

/// One layer's geometry. Statistics are taken over `group` consecutive samples (0: all); the last
/// group of a batch may be smaller.
struct batch_norm_problem {
  extent at;
  int group = 0;

  static constexpr double epsilon = 1e-5;
  static constexpr double momentum = 0.1;  // the weight of a new statistic in the running one
  static constexpr double constant = std::numeric_limits<double>::infinity();  // see backward

  [[nodiscard]] constexpr std::size_t group_size(int samples) const {
    return static_cast<std::size_t>(group == 0 ? std::max(samples, 1) : group);
  }
  [[nodiscard]] constexpr std::size_t groups(int samples) const {
    return (static_cast<std::size_t>(samples) + group_size(samples) - 1) / group_size(samples);
  }
  [[nodiscard]] constexpr std::size_t lanes_of(int block) const {
    return blocks_of(at.channels, block) * static_cast<std::size_t>(block);
  }
  /// Numbers that forward leaves to backward: five rows a group.
  [[nodiscard]] constexpr std::size_t saved(int samples, int block) const {
    return std::max(groups(samples), std::size_t{1}) * 5 * lanes_of(block);
  }
  /// Doubles that either direction works in: two a sample and channel, and one message of sums.
  [[nodiscard]] constexpr std::size_t scratch(int samples, int block) const {
    return (2 * static_cast<std::size_t>(samples) + 2) * lanes_of(block) + 1;
  }
};

/// What forward and backward of one layer share. gamma and beta are padded to whole blocks with
/// zeros, so that padding channels stay zero; running statistics and gradients are canonical.
template <class Number, class Real = Number>
struct batch_norm_tensors {
  const Number* x = nullptr;    // the layer's input, kept for backward
  Number* y = nullptr;          // its output, which tells backward where the ReLU was open
  const Real* gamma = nullptr;  // (lanes)
  const Real* beta = nullptr;   // (lanes)
  Real* saved = nullptr;        // problem.saved(samples, V)
  double* scratch = nullptr;    // problem.scratch(samples, V)
};

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

/// One group's mean and variance from its samples' (mean, squared deviations), and the count they
/// stand for. The hook is called twice: with (count, sums), and with the squared deviations about
/// the mean that the sums gave.
inline double merge_moments(const batch_norm_problem& at, std::size_t lanes, std::size_t first,
                            std::size_t last, const double* means, const double* deviations,
                            double* message, const combine_sums& combine) {
  const auto channels = static_cast<std::size_t>(at.at.channels);
  const auto pixels = static_cast<double>(at.at.pixels());
  message[0] = static_cast<double>(last - first) * pixels;
  double* mean = message + 1;
  std::fill_n(mean, 2 * lanes, 0.0);
  for (std::size_t n = first; n < last; ++n)
    for (std::size_t c = 0; c < channels; ++c) mean[c] += means[n * lanes + c] * pixels;
  combine({message, 1 + channels});
  const double count = message[0];
  for (std::size_t c = 0; c < channels; ++c) mean[c] = count > 0 ? mean[c] / count : 0;
  double* variance = mean + lanes;
  for (std::size_t n = first; n < last; ++n)
    for (std::size_t c = 0; c < channels; ++c) {
      const double away = means[n * lanes + c] - mean[c];
      variance[c] += deviations[n * lanes + c] + pixels * away * away;
    }
  combine({variance, channels});
  for (std::size_t c = 0; c < channels; ++c) variance[c] = count > 0 ? variance[c] / count : 0;
  return count;
}

/// y <- f((x - centre) scale + beta (+ residual)), with the rows of each sample's group.
template <class Real, int V, class Epilogue>
void apply_rows(const batch_norm_problem& at, int samples, std::size_t group_size,
                const batch_norm_tensors<Real>& t, const Real* residual, cpu::stream s) {
  const std::size_t lanes = at.lanes_of(V), pixels = at.at.pixels();
  for_each_block(samples, lanes / V, s, [&](std::size_t n, std::size_t b) {
    const batch_norm_rows<Real> row(t.saved, lanes, n / group_size);
    const std::size_t here = (n * lanes + b * V) * pixels, c = b * V;
    block_apply<Real, V, Epilogue>(pixels, t.x + here, row.centre + c, row.scale + c, t.beta + c,
                                   behind(residual, here), t.y + here);
  });
}

/// The rows that forward applies, and the step of the running statistics.
template <class Real, int V>
double rows_of_batch(const batch_norm_problem& at, int samples, const batch_norm_tensors<Real>& t,
                     Real* running_mean, Real* running_variance, const combine_sums& combine,
                     cpu::stream s) {
  const std::size_t lanes = at.lanes_of(V), pixels = at.at.pixels(), size = at.group_size(samples);
  double* means = t.scratch;
  double* deviations = means + static_cast<std::size_t>(samples) * lanes;
  double* message = deviations + static_cast<std::size_t>(samples) * lanes;
  for_each_block(samples, lanes / V, s, [&](std::size_t n, std::size_t b) {
    const std::size_t c = n * lanes + b * V;
    block_moments<Real, V>(pixels, t.x + c * pixels, means + c, deviations + c);
  });
  if (samples == 0)  // the others wait for us
    return merge_moments(at, lanes, 0, 0, means, deviations, message, combine);

  const std::size_t groups = at.groups(samples);
  const double take = at.momentum / static_cast<double>(groups);
  double count = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    const batch_norm_rows<Real> row(t.saved, lanes, g);
    const std::size_t last = std::min((g + 1) * size, static_cast<std::size_t>(samples));
    count = merge_moments(at, lanes, g * size, last, means, deviations, message, combine);
    const double *mean = message + 1, *variance = mean + lanes;
    const double unbias = count > 1 ? count / (count - 1) : 1;
    const double keep = g == 0 ? 1 - at.momentum : 1;
    for (std::size_t c = 0; c < lanes; ++c) {
      const double inverse = 1 / std::sqrt(variance[c] + at.epsilon);
      row.centre[c] = static_cast<Real>(mean[c]);
      row.inverse[c] = static_cast<Real>(inverse);
      row.scale[c] = static_cast<Real>(static_cast<double>(t.gamma[c]) * inverse);
    }
    const auto move = [&](Real& running, double statistic) {
      running = static_cast<Real>(keep * static_cast<double>(running) + take * statistic);
    };
    for (std::size_t c = 0; c < static_cast<std::size_t>(at.at.channels); ++c) {
      move(running_mean[c], mean[c]);
      move(running_variance[c], unbias * variance[c]);
    }
  }
  return count;
}

/// dgamma and dbeta from the samples' sums, and the rows of dx = scale g - shift - (x - centre)
/// slope.
template <class Real>
void rows_of_gradient(const batch_norm_problem& at, int samples, std::size_t lanes,
                      const batch_norm_tensors<Real>& t, double count, Real* dgamma, Real* dbeta,
                      into mode, const combine_sums& combine) {
  const std::size_t size = at.group_size(samples), total = static_cast<std::size_t>(samples);
  const auto channels = static_cast<std::size_t>(at.at.channels);
  const double *shifts = t.scratch, *scales = shifts + total * lanes;
  double* message = t.scratch + 2 * total * lanes;
  if (mode == into::overwrite) {
    std::fill_n(dgamma, channels, Real{0});
    std::fill_n(dbeta, channels, Real{0});
  }
  const std::size_t groups = std::max(at.groups(samples), std::size_t{1});  // none: others wait
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t first = g * size, last = std::min(first + size, total);
    double *shift = message, *scale = message + channels;
    std::fill_n(message, 2 * channels, 0.0);
    for (std::size_t n = first; n < last; ++n)
      for (std::size_t c = 0; c < channels; ++c) {
        shift[c] += shifts[n * lanes + c];
        scale[c] += scales[n * lanes + c];
      }
    for (std::size_t c = 0; c < channels; ++c) {
      dgamma[c] += static_cast<Real>(scale[c]);
      dbeta[c] += static_cast<Real>(shift[c]);
    }
    combine({message, 2 * channels});
    if (samples == 0) return;
    const batch_norm_rows<Real> row(t.saved, lanes, g);
    const double values = combine || count == at.constant ? count
                                                          : static_cast<double>(last - first) *
                                                                static_cast<double>(at.at.pixels());
    for (std::size_t c = 0; c < lanes; ++c) {
      const bool padding = c >= channels;
      const auto inverse = static_cast<double>(row.inverse[c]);
      const double a = static_cast<double>(t.gamma[c]) * inverse;
      row.scale[c] = static_cast<Real>(a);
      row.shift[c] = static_cast<Real>(padding ? 0 : a * shift[c] / values);
      row.slope[c] = static_cast<Real>(padding ? 0 : a * scale[c] / values * inverse);
    }
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
  const double count =
      detail::rows_of_batch<Real, V>(at, samples, t, running_mean, running_variance, combine, s);
  detail::apply_rows<Real, V, Epilogue>(at, samples, at.group_size(samples), t, residual, s);
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
  detail::apply_rows<Real, V, Epilogue>(at, samples, one_group, t, residual, s);
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
  double* shifts = t.scratch;
  double* scales = shifts + static_cast<std::size_t>(samples) * lanes;
  detail::for_each_block(samples, lanes / V, s, [&](std::size_t n, std::size_t b) {
    const detail::batch_norm_rows<Real> row(t.saved, lanes, n / size);
    const std::size_t c = b * V, lane = n * lanes + c, here = lane * pixels;
    detail::block_sums<Real, V, Epilogue>(pixels, t.x + here, t.y + here, dy + here, row.centre + c,
                                          row.inverse + c, shifts + lane, scales + lane);
  });
  detail::rows_of_gradient(at, samples, lanes, t, count, dgamma, dbeta, mode, combine);
  // Where a residual was added dy is masked already.
  using rest =
      std::conditional_t<std::same_as<Epilogue, epilogue::relu>, epilogue::relu, epilogue::store>;
  detail::for_each_block(samples, lanes / V, s, [&](std::size_t n, std::size_t b) {
    const detail::batch_norm_rows<Real> row(t.saved, lanes, n / size);
    const std::size_t c = b * V, here = (n * lanes + c) * pixels;
    detail::block_gradient<Real, V, rest>(pixels, t.x + here, t.y + here, dy + here, row.centre + c,
                                          row.scale + c, row.shift + c, row.slope + c, dx + here);
  });
}

}  // namespace cordee::inline CORDEE_ABI
