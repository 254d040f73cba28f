// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// fprop and dgrad as one sum over a window that slides over an image:
//
//   out[n, i, j, f] = sum over u, v, c of  w[f, tap(u, v), c] in[n, top(i) + d u, left(j) + d v, c]
//
//   fprop  top(i) = i t - p,          d = 1,   all taps
//   dgrad  top(i) = i + (a + p) / t,  d = -1,  taps (a + p) mod t + t u
//
// where dgrad of stride t is t^2 sweeps, each over the pixels (a + t i, b + t j) of one remainder:
// no product is with a zero between the strides.
#pragma once

#include <cstddef>

#include <cordee/core/extent.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/grid/wmma/number.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// Along one side of the images and of the window.
struct sweep_side {
  int in, out;             // their pixels
  int count, first, step;  // pixels of `out` that are made: first, first + step, ...
  int begin, stride, way;  // made pixel i sees under tap u the pixel begin + i stride + u way
  int taps, tap, next;     // of the window: tap, tap + next, ...
};

constexpr sweep_side fprop_side(const convolution_problem& p, int in, int out) {
  return {.in = in,
          .out = out,
          .count = out,
          .first = 0,
          .step = 1,
          .begin = -p.padding,
          .stride = p.stride,
          .way = 1,
          .taps = p.window,
          .tap = 0,
          .next = 1};
}
constexpr sweep_side dgrad_side(const convolution_problem& p, int in, int out, int remainder) {
  const int t = p.stride, tap = (remainder + p.padding) % t;
  const auto count = [t](int from, int n) { return n > from ? (n - from + t - 1) / t : 0; };
  return {.in = out,
          .out = in,
          .count = count(remainder, in),
          .first = remainder,
          .step = t,
          .begin = (remainder + p.padding) / t,
          .stride = 1,
          .way = -1,
          .taps = count(tap, p.window),
          .tap = tap,
          .next = t};
}

struct sweep {
  sweep_side down, across;
  int samples, channels, filters;  // of `in` and of `out`, as they lie in memory
  int window;

  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t pixels() const {
    return static_cast<std::size_t>(samples) * static_cast<std::size_t>(down.count) *
           static_cast<std::size_t>(across.count);
  }
  /// Terms of a sum.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr int terms() const {
    return down.taps * across.taps * channels;
  }

  /// Of one pixel that is made: its sample, and what it sees under the first tap.
  struct view {
    int sample, top, left;
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr view seen(int pixel) const {
    const int row = pixel / across.count, j = pixel % across.count, i = row % down.count;
    return {row / down.count, down.begin + i * down.stride, across.begin + j * across.stride};
  }
  /// Where it lies in `out`.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t place(int pixel) const {
    const int row = pixel / across.count, j = pixel % across.count, i = row % down.count;
    const auto sample = static_cast<std::size_t>(row / down.count * down.out);
    return ((sample + static_cast<std::size_t>(down.first + i * down.step)) *
                static_cast<std::size_t>(across.out) +
            static_cast<std::size_t>(across.first + j * across.step)) *
           static_cast<std::size_t>(filters);
  }
};

template <class N>
constexpr sweep fprop_sweep(const convolution_problem& p, int samples) {
  const extent out = p.out();
  return {fprop_side(p, p.in.height, out.height),
          fprop_side(p, p.in.width, out.width),
          samples,
          wmma_filled<N>(p.in.channels),
          wmma_filled<N>(p.filters),
          p.window};
}
/// Of the pixels whose row and column leave these remainders.
template <class N>
constexpr sweep dgrad_sweep(const convolution_problem& p, int samples, int row, int column) {
  const extent out = p.out();
  return {dgrad_side(p, p.in.height, out.height, row),
          dgrad_side(p, p.in.width, out.width, column),
          samples,
          wmma_filled<N>(p.filters),
          wmma_filled<N>(p.in.channels),
          p.window};
}

/// A term of the sums, and those behind it: channels of a tap, then the next tap.
struct sweep_term {
  int channel = 0, u = 0, v = 0;

  CORDEE_HOST_DEVICE constexpr void advance(const sweep& in, int by) {
    channel += by;
    while (channel >= in.channels) {
      channel -= in.channels;
      if (++v == in.across.taps) {
        v = 0;
        ++u;
      }
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail
