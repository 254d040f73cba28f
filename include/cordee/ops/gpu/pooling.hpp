// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of average pooling, subsampling and max pooling (ops/cpu/pooling.hpp), with the
// same order of sums and the same choice among equal maxima.
//
// A thread computes a vector of channels of one output pixel, forward and backward, so no memory is
// written twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/blocked_layout.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// A thread computes the mean of one vector of channels over the pixels. Small blocks: 256 samples
/// of 2,048 channels are 1,024 of them, several for each multiprocessor.
template <Number N, int Size>
struct average_pool_kernel {
  static constexpr int threads = 64;
  static constexpr bool independent = true;
  blocked_layout in;
  std::size_t vectors;
  const N* x;
  N* y;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t i = b.index() * threads + static_cast<std::size_t>(b.thread());
    if (i >= vectors) return;
    const std::size_t first = i * Size, plane = first / in.V;
    const N* const from = x + plane * in.pixels * in.V + first % in.V;
    vec_16b<N, Size> sum;
    for (std::size_t pixel = 0; pixel < in.pixels; ++pixel) {
      const vec_16b<N, Size> z(from + pixel * in.V);
      for (int k = 0; k < Size; ++k) sum.value[k] += z.value[k];
    }
    for (precision::wide<N>& value : sum.value) value /= static_cast<precision::wide<N>>(in.pixels);
    sum.store(y + first);
  }
};

/// A thread writes the gradient of one vector of channels to every pixel.
template <Number N, int Size>
struct average_pool_backward_kernel {
  static constexpr int threads = 64;
  static constexpr bool independent = true;
  blocked_layout in;
  std::size_t vectors;
  const N* dy;
  N* dx;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t i = b.index() * threads + static_cast<std::size_t>(b.thread());
    if (i >= vectors) return;
    const std::size_t first = i * Size, plane = first / in.V;
    N* to = dx + plane * in.pixels * in.V + first % in.V;
    vec_16b<N, Size> z(dy + first);
    for (precision::wide<N>& value : z.value) value /= static_cast<precision::wide<N>>(in.pixels);
    N* const end = to + in.pixels * in.V;
    for (; to != end; to += in.V) z.store(to);
  }
};

/// Number o of y.
template <Number N>
struct subsample_op {
  subsample_problem p;
  divided_layout in, out;
  fast_divisor by_width;  // of y
  const N* x;
  N* y;

  CORDEE_DEVICE void operator()(std::size_t o) const {
    const auto to = out.position_of(static_cast<int>(o));
    const int from = p.source(to.channel), row = by_width.quotient(to.pixel),
              column = to.pixel - row * by_width.divisor;
    y[o] = from < 0 || from >= p.in.channels
               ? N{}
               : x[in.offset({to.sample, from, (row * p.in.width + column) * p.stride})];
  }
};

/// Number i of the gradient of x: that of the one y which samples it, or 0.
template <Number N>
struct subsample_backward_op {
  subsample_problem p;
  divided_layout in, out;
  fast_divisor by_width, by_stride;  // of x
  const N* dy;
  N* dx;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto from = in.position_of(static_cast<int>(i));
    const int h = by_width.quotient(from.pixel), l = from.pixel - h * by_width.divisor;
    const int row = by_stride.quotient(h), column = by_stride.quotient(l);
    const bool is_sampled = from.channel < p.in.channels && h == row * p.stride &&
                            l == column * p.stride && row < p.out.height && column < p.out.width;
    dx[i] =
        is_sampled
            ? dy[out.offset({from.sample, from.channel - p.source(0), row * p.out.width + column})]
            : N{};
  }
};

/// Vector i of the maxima, and their taps.
template <Number N, int Size>
struct max_pool_op {
  max_pool_problem p;
  blocked_layout in;
  vector_positions positions;  // of y
  fast_divisor by_width;
  const N* x;
  N* y;
  std::uint8_t* argmax;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t first = i * Size;
    const auto at = positions(static_cast<int>(i));
    const int row = by_width.quotient(at.pixel), column = at.pixel - row * by_width.divisor;
    const auto [r0, r1] = p.taps(row, p.in.height);
    const auto [s0, s1] = p.taps(column, p.in.width);
    const N* const plane = x + at.plane * in.pixels * in.V + at.lane;
    vec_16b<N, Size> best;
    std::uint8_t best_tap[std::size_t{Size}] = {};
    for (int r = r0; r < r1; ++r)
      for (int s = s0; s < s1; ++s) {
        const int h = row * p.stride - p.padding + r, l = column * p.stride - p.padding + s;
        const vec_16b<N, Size> z(plane + static_cast<std::size_t>(h * p.in.width + l) * in.V);
        const bool is_first = r == r0 && s == s0;
        for (int k = 0; k < z.size; ++k)
          if (is_first || z.value[k] > best.value[k] || z.value[k] != z.value[k]) {
            best.value[k] = z.value[k];
            best_tap[k] = static_cast<std::uint8_t>(r * p.window + s);
          }
      }
    best.store(y + first);
    store_unit(best_tap, argmax + first);
  }
};

/// Vector i of the gradient of x: sums over the windows that contain it, in their order.
template <Number N, int Size>
struct max_pool_backward_op {
  max_pool_problem p;
  extent out_extent;
  blocked_layout out;
  vector_positions positions;  // of dx
  fast_divisor by_width, by_stride;
  const N* dy;
  const std::uint8_t* argmax;
  N* dx;
  bool accumulate;

  /// The windows, of `count` along an axis, that contain pixel h of it.
  CORDEE_DEVICE max_pool_problem::range windows_over(int h, int count) const {
    const int past = h + p.padding - p.window;
    return {past < 0 ? 0 : by_stride.quotient(past) + 1,
            std::min(by_stride.quotient(h + p.padding) + 1, count)};
  }
  /// The gradients of the windows whose maximum is at the vector `at`, added to those at `onto`
  /// unless it is null.
  CORDEE_DEVICE vec_16b<N, Size> sum_windows(const vector_positions::position& at,
                                             const N* onto) const {
    const int h = by_width.quotient(at.pixel), l = at.pixel - h * by_width.divisor;
    const auto [i0, i1] = windows_over(h, out_extent.height);
    const auto [j0, j1] = windows_over(l, out_extent.width);
    const std::size_t plane = at.plane * out.pixels * out.V + static_cast<std::size_t>(at.lane);
    vec_16b<N, Size> sum;
    if (onto != nullptr) sum = vec_16b<N, Size>(onto);
    for (int row = i0; row < i1; ++row)
      for (int column = j0; column < j1; ++column) {
        const std::size_t from =
            plane + static_cast<std::size_t>(row * out_extent.width + column) * out.V;
        const vec_16b<N, Size> g(dy + from);
        std::uint8_t taps[std::size_t{Size}];
        load_unit(argmax + from, taps);
        const int tap =
            (h + p.padding - row * p.stride) * p.window + (l + p.padding - column * p.stride);
        for (int k = 0; k < g.size; ++k)
          if (taps[k] == tap) sum.value[k] += g.value[k];
      }
    return sum;
  }
  CORDEE_DEVICE void operator()(std::size_t i) const {
    N* const to = dx + i * Size;
    sum_windows(positions(static_cast<int>(i)), accumulate ? to : nullptr).store(to);
  }
};

/// Vectors of activations, whose positions are computed in 31 bits.
template <int Size>
std::size_t count_vectors(const blocked_layout& of, int samples) {
  const std::size_t vectors = static_cast<std::size_t>(samples) * of.size() / Size;
  expects(vectors < 0x80000000u,
          "pooling: a batch has fewer than 2^31 numbers, or vectors of channels");
  return vectors;
}

/// y (samples, lanes) <- mean of x (samples, lanes / V, pixels, V).
template <Number N, int V, GpuStream S>
void average_pool_forward(const extent& in, int samples, const N* x, N* y, S s) {
  constexpr int size = vec_16b_size<N, V>;
  using kernel = average_pool_kernel<N, size>;
  expect_vec_aligned<size>(x, y);
  const blocked_layout from(in, V);
  const std::size_t vectors = static_cast<std::size_t>(samples) * from.lanes() / size;
  s.launch_kernel(device::blocks_for(vectors, kernel::threads), kernel{from, vectors, x, y});
}

/// dx <- dy / pixels at every pixel.
template <Number N, int V, GpuStream S>
void average_pool_backward(const extent& in, int samples, const N* dy, N* dx, S s) {
  constexpr int size = vec_16b_size<N, V>;
  using kernel = average_pool_backward_kernel<N, size>;
  expect_vec_aligned<size>(dy, dx);
  const blocked_layout to(in, V);
  const std::size_t vectors = static_cast<std::size_t>(samples) * to.lanes() / size;
  s.launch_kernel(device::blocks_for(vectors, kernel::threads), kernel{to, vectors, dy, dx});
}

template <Number N, int VX, int VY, GpuStream S>
void subsample_forward(const subsample_problem& p, int samples, const N* x, N* y, S s) {
  const blocked_layout in(p.in, VX), out(p.out, VY);
  (void)count_vectors<1>(in, samples);
  for_each(
      s, count_vectors<1>(out, samples),
      subsample_op<N>{p, divided_layout(in), divided_layout(out), fast_divisor(p.out.width), x, y});
}

/// dx is zero where y does not sample it.
template <Number N, int VX, int VY, GpuStream S>
void subsample_backward(const subsample_problem& p, int samples, const N* dy, N* dx, S s) {
  const blocked_layout in(p.in, VX), out(p.out, VY);
  (void)count_vectors<1>(out, samples);
  for_each(s, count_vectors<1>(in, samples),
           subsample_backward_op<N>{p, divided_layout(in), divided_layout(out),
                                    fast_divisor(p.in.width), fast_divisor(p.stride), dy, dx});
}

/// Also writes `argmax`, one byte for each number of y: the tap of the maximum.
template <Number N, int V, GpuStream S>
void max_pool_forward(const max_pool_problem& p, int samples, const N* x, N* y,
                      std::uint8_t* argmax, S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(x, y, argmax);
  const blocked_layout in(p.in, V), out(p.out(), V);
  for_each(s, count_vectors<size>(out, samples),
           max_pool_op<N, size>{p, in, {out, size}, fast_divisor(p.out().width), x, y, argmax});
}

/// Each number of dx is computed from the windows that contain it.
template <Number N, int V, GpuStream S>
void max_pool_backward(const max_pool_problem& p, int samples, const N* dy,
                       const std::uint8_t* argmax, N* dx, write_mode mode, S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(dy, argmax, dx);
  const blocked_layout in(p.in, V), out(p.out(), V);
  for_each(s, count_vectors<size>(in, samples),
           max_pool_backward_op<N, size>{p,
                                         p.out(),
                                         out,
                                         {in, size},
                                         fast_divisor(p.in.width),
                                         fast_divisor(p.stride),
                                         dy,
                                         argmax,
                                         dx,
                                         mode == write_mode::add});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
