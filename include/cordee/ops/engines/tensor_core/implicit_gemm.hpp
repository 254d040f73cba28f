// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// fprop and dgrad as one implicit GEMM over a window that moves over an image:
//
//   out[n, i, j, f] = sum over u, v, c of  w[f, tap(u, v), c] in[n, top(i) + d u, left(j) + d v, c]
//
//   fprop   top(i) = i t - p            d =  1    all taps
//   dgrad   top(i) = i + (a + p) / t    d = -1    taps (a + p) mod t + t u
//
// with stride t and padding p. dgrad of stride t is t^2 GEMMs, one for each remainder (a, b), which
// computes the pixels (a + t i, b + t j): none multiplies by the zeros between strided gradients.
//
//   M = pixels (n, i, j)        N = filters f        K = taps and channels (u, v, c)
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/tensor_core/mma_type.hpp>
#include <cordee/ops/fast_divisor.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// One spatial axis of the images and of the filter.
struct gemm_axis {
  int in, out;                    // pixels of `in` and of `out`
  int count, first, step;         // pixels of `out` computed: first, first + step, ...
  int origin, stride, direction;  // pixel i reads, at tap u, pixel origin + i stride + u direction
  int taps, first_tap, tap_step;  // of the filter: first_tap, first_tap + tap_step, ...
};

constexpr gemm_axis fprop_axis(const convolution_problem& p, int in, int out) {
  return {.in = in,
          .out = out,
          .count = out,
          .first = 0,
          .step = 1,
          .origin = -p.padding,
          .stride = p.stride,
          .direction = 1,
          .taps = p.window,
          .first_tap = 0,
          .tap_step = 1};
}
constexpr gemm_axis dgrad_axis(const convolution_problem& p, int in, int out, int remainder) {
  const int t = p.stride, tap = (remainder + p.padding) % t;
  const auto count = [t](int from, int n) { return n > from ? (n - from + t - 1) / t : 0; };
  return {.in = out,
          .out = in,
          .count = count(remainder, in),
          .first = remainder,
          .step = t,
          .origin = (remainder + p.padding) / t,
          .stride = 1,
          .direction = -1,
          .taps = count(tap, p.window),
          .first_tap = tap,
          .tap_step = t};
}

/// Taps of each axis, at most: they are bits of a mask.
inline constexpr int max_taps = 15;

struct implicit_gemm {
  gemm_axis down, across;          // rows, columns
  int samples, channels, filters;  // channels of `in` and of `out`, padded
  int window;                      // the filter is window x window
  fast_divisor by_column_count = fast_divisor(across.count),
               by_row_count = fast_divisor(down.count), by_channels = fast_divisor(channels),
               by_window = fast_divisor(window);

  /// M.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t pixels() const {
    return static_cast<std::size_t>(samples) * static_cast<std::size_t>(down.count) *
           static_cast<std::size_t>(across.count);
  }
  /// K.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr int depth() const {
    return down.taps * across.taps * channels;
  }
  /// At most one tap: a 1 x 1 window, or one remainder of a strided dgrad.
  [[nodiscard]] constexpr bool has_one_tap() const { return down.taps * across.taps <= 1; }
  /// Whether a tap of some pixel of the output lies outside the image.
  [[nodiscard]] constexpr bool reads_padding() const {
    const auto is_within = [](const gemm_axis& axis) {
      const int tap = (axis.taps - 1) * axis.direction, pixel = (axis.count - 1) * axis.stride;
      return axis.origin + std::min(tap, 0) >= 0 &&
             axis.origin + pixel + std::max(tap, 0) < axis.in;
    };
    return !is_within(down) || !is_within(across);
  }

  /// The sample of an output pixel and the input pixel that it reads at the first tap.
  struct window_origin {
    int sample, top, left;
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr window_origin origin_of(int pixel) const {
    const position at = position_of(pixel);
    return {at.sample, down.origin + at.i * down.stride, across.origin + at.j * across.stride};
  }
  /// Offset of an output pixel's first channel in `out`.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t output_offset(int pixel) const {
    const position at = position_of(pixel);
    const auto row = static_cast<std::size_t>(at.sample * down.out + down.first + at.i * down.step);
    const std::size_t place = row * static_cast<std::size_t>(across.out) +
                              static_cast<std::size_t>(across.first + at.j * across.step);
    return place * static_cast<std::size_t>(filters);
  }

 private:
  struct position {
    int sample, i, j;
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr position position_of(int pixel) const {
    const int row = by_column_count.quotient(pixel), sample = by_row_count.quotient(row);
    return {sample, row - sample * down.count, pixel - row * across.count};
  }
};

/// Pixels are indexed in 32 bits, one K step beyond the last included; taps are bits of a mask.
inline void expect_supported(const implicit_gemm& g) {
  expects(g.pixels() <= 2'000'000'000, "tensor_core: a batch has at most 2,000,000,000 pixels");
  expects(g.window <= max_taps, "tensor_core: a window has at most 15 x 15 taps");
}

template <class N>
constexpr implicit_gemm fprop_gemm(const convolution_problem& p, int samples) {
  const extent out = p.out();
  return {fprop_axis(p, p.in.height, out.height), fprop_axis(p, p.in.width, out.width), samples,
          tensor_core_channels<N>(p.in.channels), tensor_core_channels<N>(p.filters),   p.window};
}
/// The pixels of dx whose row and column have these remainders modulo the stride.
template <class N>
constexpr implicit_gemm dgrad_gemm(const convolution_problem& p, int samples, int row, int column) {
  const extent out = p.out();
  return {dgrad_axis(p, p.in.height, out.height, row),
          dgrad_axis(p, p.in.width, out.width, column),
          samples,
          tensor_core_channels<N>(p.filters),
          tensor_core_channels<N>(p.in.channels),
          p.window};
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
