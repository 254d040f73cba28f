// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of batch normalization (ops/cpu/batch_norm.hpp): forward and backward take two
// passes over the activations each, and between them one over the chunks' results.
//
// A chunk yields its mean and squared deviations, from sums over x - x[0] in wide; chunks are
// merged in double, in their order.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <cordee/core/error.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/batch_norm_merge.hpp>
#include <cordee/ops/gpu/batch_norm_ranks.hpp>
#include <cordee/ops/gpu/batch_norm_tiles.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The coefficients of a vector of channels.
template <Number N, class Real>
CORDEE_DEVICE vec_16b<N> load_coefficients(const Real* row, int width) {
  vec_16b<N> out;
  for (int k = 0; k < out.size; ++k)
    if (k < width) out.value[k] = static_cast<precision::wide<N>>(row[k]);
  return out;
}

/// dy masked by the epilogue's ReLU: zero where y is not positive.
template <class Epilogue, Number N>
CORDEE_DEVICE vec_16b<N> masked_gradient(const N* dy, const N* y, int width) {
  vec_16b<N> g(dy, width);
  if constexpr (!std::same_as<Epilogue, epilogue::store>) {
    const vec_16b<N> out(y, width);
    for (int k = 0; k < g.size; ++k)
      g.value[k] = out.value[k] > 0 ? g.value[k] : precision::wide<N>{0};
  }
  return g;
}

/// Mean and sum of squared deviations of every chunk.
template <Number N>
struct chunk_moments_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  batch_norm_tiles tiling;
  const N* x;
  double *means, *deviations;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return column_bytes<N>; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto span = tiling.rows_of_thread(b.index(), b.thread());
    vec_16b<N> origin, sum, square;
    if (span.start < span.last)
      origin = vec_16b<N>(x + tiling.offset(span, span.first), tiling.width);
    for (std::size_t row = span.start; row < span.last; row += tiling.down) {
      const vec_16b<N> z(x + tiling.offset(span, row), tiling.width);
      for (int k = 0; k < z.size; ++k) {
        const precision::wide<N> d = z.value[k] - origin.value[k];
        sum.value[k] += d;
        square.value[k] += d * d;
      }
    }
    sum_columns(b, tiling, sum, square);
    if (!span.active || span.slot != 0 || span.first >= span.last) return;
    const std::size_t entry = tiling.entry(span.group, span.chunk, span.lane);
    for (int k = 0; k < sum.size; ++k)
      if (k < tiling.width) {
        const double shift =
            static_cast<double>(sum.value[k]) / static_cast<double>(span.last - span.first);
        const double m2 =
            static_cast<double>(square.value[k]) - static_cast<double>(sum.value[k]) * shift;
        means[entry + static_cast<std::size_t>(k)] = static_cast<double>(origin.value[k]) + shift;
        deviations[entry + static_cast<std::size_t>(k)] = m2 < 0 ? 0 : m2;  // NaN stays NaN
      }
  }
};

/// y <- f((x - center) scale + beta (+ residual)), with the coefficients of each group.
template <class Epilogue, Number N, class Real>
struct normalize_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  static constexpr bool independent = true;
  batch_norm_tiles tiling;
  batch_norm_tensors<N, Real> t;
  const N* residual;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto span = tiling.rows_of_thread(b.index(), b.thread());
    if (span.start >= span.last) return;
    const batch_norm_coefficients<Real> row(t.saved, tiling.in.lanes(), span.group);
    const auto center = load_coefficients<N>(row.mean + span.lane, tiling.width),
               scale = load_coefficients<N>(row.scale + span.lane, tiling.width),
               beta = load_coefficients<N>(t.beta + span.lane, tiling.width);
    for (std::size_t r = span.start; r < span.last; r += tiling.down) {
      const std::size_t offset = tiling.offset(span, r);
      vec_16b<N> z(t.x + offset, tiling.width), added;
      if constexpr (std::same_as<Epilogue, epilogue::add_relu>)
        added = vec_16b<N>(residual + offset, tiling.width);
      for (int k = 0; k < z.size; ++k) {
        z.value[k] =
            (z.value[k] - center.value[k]) * scale.value[k] + beta.value[k] + added.value[k];
        if constexpr (!std::same_as<Epilogue, epilogue::store>)
          z.value[k] = z.value[k] < 0 ? precision::wide<N>{0} : z.value[k];
      }
      z.store(t.y + offset, tiling.width);
    }
  }
};

/// sum(g) and sum(g h) of every chunk, with h the normalized x. Where a residual was added, g
/// replaces dy, since it is also the residual's gradient.
template <class Epilogue, Number N, class Real>
struct chunk_sums_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  batch_norm_tiles tiling;
  batch_norm_tensors<N, Real> t;
  N* dy;
  double *shifts, *scales;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return column_bytes<N>; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto span = tiling.rows_of_thread(b.index(), b.thread());
    const batch_norm_coefficients<Real> row(t.saved, tiling.in.lanes(), span.group);
    vec_16b<N> center, sum, product;
    if (span.active) center = load_coefficients<N>(row.mean + span.lane, tiling.width);
    for (std::size_t r = span.start; r < span.last; r += tiling.down) {
      const std::size_t offset = tiling.offset(span, r);
      const auto g = masked_gradient<Epilogue>(dy + offset, t.y + offset, tiling.width);
      const vec_16b<N> z(t.x + offset, tiling.width);
      if constexpr (std::same_as<Epilogue, epilogue::add_relu>) g.store(dy + offset, tiling.width);
      for (int k = 0; k < g.size; ++k) {
        sum.value[k] += g.value[k];
        product.value[k] += g.value[k] * (z.value[k] - center.value[k]);
      }
    }
    sum_columns(b, tiling, sum, product);
    if (!span.active || span.slot != 0) return;
    const std::size_t entry = tiling.entry(span.group, span.chunk, span.lane);
    for (int k = 0; k < sum.size; ++k)
      if (k < tiling.width) {
        const auto i = static_cast<std::size_t>(k);
        shifts[entry + i] = static_cast<double>(sum.value[k]);
        scales[entry + i] =
            static_cast<double>(product.value[k]) * static_cast<double>(row.inv_std[span.lane + i]);
      }
  }
};

/// dx <- scale g - shift - (x - center) slope; dx may be dy.
template <class Epilogue, Number N, class Real>
struct input_gradient_kernel {
  static constexpr int threads = batch_norm_tiles::threads;
  static constexpr bool independent = true;
  batch_norm_tiles tiling;
  batch_norm_tensors<N, Real> t;
  const N* dy;
  N* dx;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto span = tiling.rows_of_thread(b.index(), b.thread());
    if (span.start >= span.last) return;
    const batch_norm_coefficients<Real> row(t.saved, tiling.in.lanes(), span.group);
    const auto center = load_coefficients<N>(row.mean + span.lane, tiling.width),
               scale = load_coefficients<N>(row.scale + span.lane, tiling.width),
               shift = load_coefficients<N>(row.shift + span.lane, tiling.width),
               slope = load_coefficients<N>(row.slope + span.lane, tiling.width);
    for (std::size_t r = span.start; r < span.last; r += tiling.down) {
      const std::size_t offset = tiling.offset(span, r);
      auto g = masked_gradient<Epilogue>(dy + offset, t.y + offset, tiling.width);
      const vec_16b<N> z(t.x + offset, tiling.width);
      for (int k = 0; k < g.size; ++k)
        g.value[k] = scale.value[k] * g.value[k] - shift.value[k] -
                     (z.value[k] - center.value[k]) * slope.value[k];
      g.store(dx + offset, tiling.width);
    }
  }
};

inline void expect_one_group(const batch_norm_problem& at, int samples,
                             const statistics_allreduce& combine) {
  expects(
      !combine || at.ghost_batches(samples) <= 1,
      "batch_norm: statistics shared by ranks are taken over whole batches; use ghost_batch = 0");
}

/// Training: normalizes by the batch's statistics and moves the running statistics towards them
/// (towards their mean over the groups). Returns the number of values per channel that the
/// statistics cover. Temporary memory is the stream's; `scratch` is not used.
template <Number N, int V, class Epilogue, class Real, GpuStream S>
double batch_norm_forward(const batch_norm_problem& at, int samples,
                          const batch_norm_tensors<N, Real>& t, const N* residual,
                          Real* running_mean, Real* running_variance,
                          const statistics_allreduce& combine, S s) {
  expect_one_group(at, samples, combine);
  if (samples == 0 && !combine) return 0;
  if (samples == 0)  // other ranks wait for this rank's part
    return share_moments<Real>(static_cast<std::size_t>(at.in.channels), at.padded_channels(V), 0,
                               t.gamma, t.saved, nullptr, combine, s);
  const batch_norm_tiles tiling(at, samples, V, vec_16b_width<N>(V, t.x, t.y, residual));
  const std::size_t lanes = tiling.in.lanes(), table = tiling.groups * lanes;
  const device::stream_buffer<double, S> chunks(s, 2 * tiling.table()), statistics(s, 2 * table);
  double *means = chunks.data(), *deviations = means + tiling.table();
  double *mean = statistics.data(), *variance = mean + table;
  s.launch_kernel(tiling.blocks(), chunk_moments_kernel<N>{tiling, t.x, means, deviations});
  s.launch_kernel(
      merge_tile::blocks(tiling),
      merge_moments_kernel<Real>{tiling, t.gamma, t.saved, means, deviations, mean, variance});
  auto count = static_cast<double>(tiling.rows_of(tiling.groups - 1));
  if (combine)
    count =
        share_moments<Real>(tiling.in.channels, lanes, count, t.gamma, t.saved, mean, combine, s);
  for_each(s, tiling.in.channels,
           running_statistics_op<Real>{tiling.groups, lanes, mean, variance, running_mean,
                                       running_variance});
  s.launch_kernel(tiling.blocks(), normalize_kernel<Epilogue, N, Real>{tiling, t, residual});
  return count;
}

/// Evaluation, and training with frozen statistics: normalizes by the running statistics.
template <Number N, int V, class Epilogue, class Real, GpuStream S>
void batch_norm_evaluate(const batch_norm_problem& at, int samples,
                         const batch_norm_tensors<N, Real>& t, const N* residual,
                         const Real* running_mean, const Real* running_variance, S s) {
  const batch_norm_tiles tiling({at.in, 0}, samples,
                                V,  // one group
                                vec_16b_width<N>(V, t.x, t.y, residual));
  for_each(s, tiling.in.lanes(),
           evaluation_coefficients_op<Real>{tiling.in.channels, tiling.in.lanes(), t.gamma,
                                            running_mean, running_variance, t.saved});
  s.launch_kernel(tiling.blocks(), normalize_kernel<Epilogue, N, Real>{tiling, t, residual});
}

/// dx from dy; dx and dy may be the same memory unless a residual was added, in which case dy
/// becomes the residual's gradient. `count` is forward's result, or `constant` as on the CPU; it is
/// used only if ranks share statistics.
template <Number N, int V, class Epilogue, class Real, GpuStream S>
void batch_norm_backward(const batch_norm_problem& at, int samples,
                         const batch_norm_tensors<N, Real>& t, double count, N* dy, N* dx,
                         Real* dgamma, Real* dbeta, write_mode mode,
                         const statistics_allreduce& combine, S s) {
  expect_one_group(at, samples, combine);
  const batch_norm_tiles tiling(at, samples, V, vec_16b_width<N>(V, t.x, t.y, dy, dx));
  const std::size_t lanes = tiling.in.lanes(), table = tiling.groups * lanes;
  const device::stream_buffer<double, S> chunks(s, 2 * tiling.table()), sums(s, 2 * table);
  double *shifts = chunks.data(), *scales = shifts + tiling.table();
  double *shift = sums.data(), *scale = shift + table;
  s.launch_kernel(tiling.blocks(),
                  chunk_sums_kernel<Epilogue, N, Real>{tiling, t, dy, shifts, scales});
  s.launch_kernel(merge_tile::blocks(tiling),
                  merge_sums_kernel<Real>{tiling, t.gamma, t.saved, shifts, scales, shift, scale,
                                          count == at.frozen_count});
  for_each(s, tiling.in.channels,
           parameter_gradient_op<Real>{tiling.groups, lanes, shift, scale, dbeta, dgamma,
                                       mode == write_mode::add});
  if (combine)
    share_sums<Real>(tiling.in.channels, lanes, count, t.gamma, t.saved,
                     samples == 0 ? nullptr : shift, combine, s);
  // With a residual, dy is masked already.
  using rest =
      std::conditional_t<std::same_as<Epilogue, epilogue::relu>, epilogue::relu, epilogue::store>;
  s.launch_kernel(tiling.blocks(), input_gradient_kernel<rest, N, Real>{tiling, t, dy, dx});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
