// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm, ReLU and a max pool on a GPU in one pass over x, forward and backward: between the
// norm and the pool nothing is in memory. Per channel, with the window of an output pixel o:
//
//   y[o] = max over the window of relu(gamma h + beta),   a[o]: the tap of that maximum
//   g[i] = (sum of dy[o] over windows with i at a[o]) [gamma h + beta > 0],   h as in batch norm
//   sum_i g = sum_o dy[o] [y[o] > 0],   sum_i g h = sum_o dy[o] h[a[o]] [y[o] > 0]
//
// Forward stores x at a, so that the sums are of a quarter of the pixels (stride 2), as those of
// batch norm's backward. Then one pass computes dx. y and a are those of the separate passes, bit
// by bit; g is not rounded here, as there.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/batch_norm_kernels.hpp>
#include <cordee/ops/gpu/blocked_layout.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The first channel of a vector's plane and lane.
class first_channels {
 public:
  constexpr explicit first_channels(const blocked_layout& of)
      : V_(static_cast<int>(of.V)), by_blocks_(static_cast<int>(of.blocks)) {}

  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t operator()(
      const vector_positions::position& at) const {
    const int plane = static_cast<int>(at.plane),
              block = plane - by_blocks_.quotient(plane) * by_blocks_.divisor;
    return static_cast<std::size_t>(block * V_ + at.lane);
  }

 private:
  int V_;
  fast_divisor by_blocks_;
};

/// Vector i of the maxima, their taps, and x there. Statistics are of one group.
template <Number N, int Size, class Real>
struct normalized_max_pool_op {
  max_pool_problem p;
  blocked_layout in;
  vector_positions positions;  // of y
  fast_divisor by_width;
  first_channels channels;
  batch_norm_tensors<N, Real> t;  // y: x at the maxima
  N* y;
  std::uint8_t* argmax;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t first = i * Size;
    const auto at = positions(static_cast<int>(i));
    const int row = by_width.quotient(at.pixel), column = at.pixel - row * by_width.divisor;
    const auto [r0, r1] = p.taps(row, p.in.height);
    const auto [s0, s1] = p.taps(column, p.in.width);
    const N* const plane = t.x + at.plane * in.pixels * in.V + at.lane;
    const batch_norm_coefficients<Real> saved(t.saved, in.lanes(), 0);
    const normalization_coefficients<N, Size> of(saved, t.beta, channels(at));
    vec_16b<N, Size> best, at_best;
    std::uint8_t best_tap[std::size_t{Size}] = {};
    constexpr int depth = 3;  // taps of a row that are loaded before the first of them is used
    for (int r = r0; r < r1; ++r)
      for (int s = s0; s < s1; s += depth) {
        const int h = row * p.stride - p.padding + r, l = column * p.stride - p.padding + s;
        const N* const from = plane + static_cast<std::size_t>(h * p.in.width + l) * in.V;
        vec_16b<N, Size> x[std::size_t{depth}];
        for (int j = 0; j < depth; ++j)
          if (s + j < s1) x[j] = vec_16b<N, Size>(from + static_cast<std::size_t>(j) * in.V);
        for (int j = 0; j < depth; ++j) {
          if (s + j >= s1) break;
          vec_16b<N, Size> z;
          for (int k = 0; k < Size; ++k) {
            z.value[k] = of.normalized(k, x[j].value[k]);
            z.value[k] = z.value[k] < 0 ? precision::wide<N>{0} : z.value[k];
          }
          (void)z.round();  // equal where y would be
          const bool is_first = r == r0 && s + j == s0;
          for (int k = 0; k < Size; ++k)
            if (is_first || z.value[k] > best.value[k] || z.value[k] != z.value[k]) {
              best.value[k] = z.value[k];
              at_best.value[k] = x[j].value[k];
              best_tap[k] = static_cast<std::uint8_t>(r * p.window + s + j);
            }
        }
      }
    best.store(y + first);
    at_best.store(t.y + first);
    store_unit(best_tap, argmax + first);
  }
};

/// Vector i of dx, from shift and slope of sums over the maxima, of which there are `share` for a
/// number of x.
template <Number N, int Size, class Real>
struct normalized_max_pool_backward_op {
  max_pool_backward_op<N, Size> pool;  // its dx is not used
  std::size_t lanes;
  first_channels channels;
  batch_norm_tensors<N, Real> t;
  N* dx;
  Real share;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t first = i * Size;
    const auto at = pool.positions(static_cast<int>(i));
    const std::size_t lane = channels(at);
    const batch_norm_coefficients<Real> saved(t.saved, lanes, 0);
    const normalization_coefficients<N, Size> of(saved, t.beta, lane);
    const auto shift = load_coefficients<N, Size>(saved.shift + lane),
               slope = load_coefficients<N, Size>(saved.slope + lane);
    const vec_16b<N, Size> x(t.x + first);
    vec_16b<N, Size> g = pool.sum_windows(at, nullptr);
    mask_gradient<epilogue::relu>(g, x, of);
    const auto part = static_cast<precision::wide<N>>(share);
    for (int k = 0; k < Size; ++k)
      g.value[k] = of.scale.value[k] * g.value[k] - part * shift.value[k] -
                   (x.value[k] - of.center.value[k]) * (part * slope.value[k]);
    g.store(dx + first);
  }
};

/// y and its taps, by coefficients of any origin; t.y, which may be larger, becomes x at the
/// maxima.
template <Number N, int V, class Real, GpuStream S>
void normalized_max_pool_forward(const max_pool_problem& p, int samples,
                                 const batch_norm_tensors<N, Real>& t, N* y, std::uint8_t* argmax,
                                 S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(t.x, t.y, y, argmax);
  const blocked_layout in(p.in, V), out(p.out(), V);
  for_each(s, count_vectors<size>(out, samples),
           normalized_max_pool_op<N, size, Real>{
               p, in, {out, size}, fast_divisor(p.out().width), first_channels(in), t, y, argmax});
}

/// Lane c's shift and slope of dx from the sums over the maxima that are there, and the parameters'
/// gradients.
template <class Real>
struct coefficients_of_sums_op {
  static constexpr std::size_t numbers_per_thread = 1;
  std::size_t lanes, channels;
  double count;  // maxima of a channel
  Real* saved;
  parameter_gradient_op<Real> gradient;

  CORDEE_DEVICE void operator()(std::size_t c) const {
    const batch_norm_coefficients<Real> row(saved, lanes, 0);
    const auto sum = static_cast<double>(row.shift[c]), product = static_cast<double>(row.slope[c]),
               factor = static_cast<double>(row.scale[c]) / count;
    if (c < channels) gradient.add(c, sum, product);
    row.shift[c] = static_cast<Real>(factor * sum);
    row.slope[c] = static_cast<Real>(factor * product * static_cast<double>(row.inv_std[c]));
  }
};

/// dx, with the coefficients of sums over the maxima.
template <Number N, int V, class Real, GpuStream S>
void normalized_max_pool_input_gradient(const max_pool_problem& p, int samples,
                                        const batch_norm_tensors<N, Real>& t, const N* dy,
                                        const std::uint8_t* argmax, N* dx, S s) {
  constexpr int size = vec_16b_size<N, V>;
  const blocked_layout in(p.in, V), out(p.out(), V);
  for_each(s, count_vectors<size>(in, samples),
           normalized_max_pool_backward_op<N, size, Real>{
               {p,
                p.out(),
                out,
                {in, size},
                fast_divisor(p.in.width),
                fast_divisor(p.stride),
                dy,
                argmax,
                nullptr,
                false},
               in.lanes(),
               first_channels(in),
               t,
               dx,
               static_cast<Real>(p.out().pixels()) / static_cast<Real>(p.in.pixels())});
}

/// dx and the parameters' gradients from dy of the pool's output, with t.y as forward left it and
/// the other arguments of batch_norm_backward.
template <Number N, int V, class Real, GpuStream S>
void normalized_max_pool_backward(const batch_norm_problem& at, const max_pool_problem& p,
                                  int samples, const batch_norm_tensors<N, Real>& t, double count,
                                  N* dy, const std::uint8_t* argmax, N* dx, Real* dgamma,
                                  Real* dbeta, write_mode mode, const statistics_allreduce& combine,
                                  S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(t.x, argmax, dx);
  expects(at.ghost_batches(samples) <= 1, "normalized_max_pool: statistics are of one group");
  auto at_maxima = t;
  at_maxima.x = t.y;
  const batch_norm_problem pooled{p.out()};
  differentiate_batch<size, epilogue::relu>(pooled, V, samples, at_maxima, count, dy, dgamma, dbeta,
                                            mode, combine, s, [&](const batch_norm_tiles&, auto) {
                                              normalized_max_pool_input_gradient<N, V>(
                                                  p, samples, t, dy, argmax, dx, s);
                                            });
}
/// The same from dy that is masked, and whose sums are in the saved rows `shift` and `slope`.
template <Number N, int V, class Real, GpuStream S>
void normalized_max_pool_backward_of_sums(const max_pool_problem& p, int samples, const N* dy,
                                          const std::uint8_t* argmax,
                                          const norm_gradients<N, Real>& of, write_mode mode, S s) {
  expect_vec_aligned<vec_16b_size<N, V>>(of.t.x, dy, argmax, of.dx);
  const std::size_t lanes = blocked_layout(p.in, V).lanes();
  const auto count = static_cast<double>(p.out().pixels()) * samples;
  for_each(s, lanes,
           coefficients_of_sums_op<Real>{
               lanes,
               static_cast<std::size_t>(p.in.channels),
               count,
               of.t.saved,
               {1, lanes, nullptr, nullptr, of.dbeta, of.dgamma, mode == write_mode::add}});
  normalized_max_pool_input_gradient<N, V>(p, samples, of.t, dy, argmax, of.dx, s);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
