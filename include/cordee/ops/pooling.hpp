// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ops that change the extent without parameters: the global average pool, y_c = mean over pixels of
// x_c, and the subsampling shortcut of CIFAR ResNets (He et al., 2016, option A).
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/core/extent.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {

/// y (samples, lanes) <- mean of x (samples, lanes / V, pixels, V).
template <class Real, int V>
void average_pool_forward(const extent& in, int samples, const Real* x, Real* y, cpu::stream s) {
  const std::size_t pixels = in.pixels(), blocks = blocks_of(in.channels, V);
  parallel(s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
    for (std::size_t b = first * blocks; b < last * blocks; ++b) {
      Real sum[V] = {};
      for (std::size_t p = 0; p < pixels; ++p)
        for (std::size_t v = 0; v < V; ++v) sum[v] += x[(b * pixels + p) * V + v];
      for (std::size_t v = 0; v < V; ++v) y[b * V + v] = sum[v] / static_cast<Real>(pixels);
    }
  });
}

/// dx <- dy / pixels everywhere.
template <class Real, int V>
void average_pool_backward(const extent& in, int samples, const Real* dy, Real* dx, cpu::stream s) {
  const std::size_t pixels = in.pixels(), blocks = blocks_of(in.channels, V);
  parallel(s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
    for (std::size_t b = first * blocks; b < last * blocks; ++b) {
      Real share[V];
      for (std::size_t v = 0; v < V; ++v) share[v] = dy[b * V + v] / static_cast<Real>(pixels);
      for (std::size_t p = 0; p < pixels; ++p)
        for (std::size_t v = 0; v < V; ++v) dx[(b * pixels + p) * V + v] = share[v];
    }
  });
}

/// From every second pixel of `in` to `out`, the new channels zero and half of them on each side:
/// y[c + (K - C) / 2, i, j] = x[c, 2i, 2j].
struct subsample_problem {
  extent in, out;
  int stride = 2;

  /// The input channel that an output lane shows; negative or too large: none, zero.
  [[nodiscard]] constexpr int source(int lane) const {
    return lane - (out.channels - in.channels) / 2;
  }
};

namespace detail {

/// Calls f(index in x, index in y, whether x has that channel) for every number of y of the samples
/// first .. last-1.
template <int VX, int VY, class F>
void for_each_subsampled(const subsample_problem& at, std::size_t first, std::size_t last,
                         const F& f) {
  const auto stride = static_cast<std::size_t>(at.stride);
  const auto width = static_cast<std::size_t>(at.out.width), pixels = at.out.pixels();
  const std::size_t lanes = blocks_of(at.out.channels, VY) * VY;
  for (std::size_t n = first; n < last; ++n)
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const int from = at.source(static_cast<int>(lane));
      const bool present = from >= 0 && from < at.in.channels;
      const auto c = static_cast<std::size_t>(present ? from : 0);
      const std::size_t x = n * sample_size(at.in, VX) + c / VX * at.in.pixels() * VX + c % VX;
      const std::size_t y = n * sample_size(at.out, VY) + lane / VY * pixels * VY + lane % VY;
      for (std::size_t p = 0; p < pixels; ++p) {
        const std::size_t row = p / width * stride, column = p % width * stride;
        f(x + (row * static_cast<std::size_t>(at.in.width) + column) * VX, y + p * VY, present);
      }
    }
}

}  // namespace detail

template <class Real, int VX, int VY>
void subsample_forward(const subsample_problem& at, int samples, const Real* x, Real* y,
                       cpu::stream s) {
  parallel(s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
    detail::for_each_subsampled<VX, VY>(
        at, first, last,
        [=](std::size_t i, std::size_t o, bool present) { y[o] = present ? x[i] : Real{0}; });
  });
}

/// dx is zero but where y looked.
template <class Real, int VX, int VY>
void subsample_backward(const subsample_problem& at, int samples, const Real* dy, Real* dx,
                        cpu::stream s) {
  const std::size_t size = sample_size(at.in, VX);
  parallel(s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
    std::fill(dx + first * size, dx + last * size, Real{0});
    detail::for_each_subsampled<VX, VY>(at, first, last,
                                        [=](std::size_t i, std::size_t o, bool present) {
                                          if (present) dx[i] = dy[o];
                                        });
  });
}

}  // namespace cordee::inline CORDEE_ABI
