// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ops that change the extent without parameters: the global average pool, y[c] = mean over pixels
// of x[c]; the subsampling shortcut of CIFAR ResNets (He et al., 2016, option A); and the max pool,
//
//   y[c, i, j]  = max over r, s of x[c, i t + r - p, j t + s - p]    inside the image only
//   dx[c, h, l] = sum of the dy[c, i, j] whose maximum is x[c, h, l]: of equal ones the first in
//                 row-major order
//
// with stride t and padding p. A NaN is a maximum, the last of several (as in PyTorch).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/core/extent.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/channel_registers.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/layout.hpp>
#include <cordee/ops/pooling.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// y (samples, C / V, 1, 1, V) <- the mean over pixels of x (samples, C / V, H, W, V).
template <class N, int V>
void average_pool_forward(const extent& in, int samples, const N* x, N* y, cpu::stream s) {
  using Real = precision::wide<N>;
  const std::size_t pixels = in.pixels(), blocks = channel_blocks(in.channels, V);
  device::parallel_chunks(s, static_cast<std::size_t>(samples), 1,
                          [=](std::size_t first, std::size_t last) {
                            constexpr std::size_t W = register_lanes<Real, V>;
                            for (std::size_t b = first * blocks; b < last * blocks; ++b)
                              for (std::size_t lane = 0; lane < V; lane += W) {
                                const N* const from = x + b * pixels * V + lane;
                                // nvcc 13 has an internal error at a vector of zeros here
                                vec<Real, W> sum = load<N, W>(from) + Real{0};
                                for (std::size_t p = 1; p < pixels; ++p)
                                  sum += load<N, W>(from + p * V);
                                store<N, W>(y + b * V + lane, sum / static_cast<Real>(pixels));
                              }
                          });
}

/// dx (samples, C / V, H, W, V) <- dy (samples, C / V, 1, 1, V) / pixels, at every pixel.
template <class N, int V>
void average_pool_backward(const extent& in, int samples, const N* dy, N* dx, cpu::stream s) {
  using Real = precision::wide<N>;
  const std::size_t pixels = in.pixels(), blocks = channel_blocks(in.channels, V);
  device::parallel_chunks(
      s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
        constexpr std::size_t W = register_lanes<Real, V>;
        for (std::size_t b = first * blocks; b < last * blocks; ++b) {
          N share[std::size_t{V}];
          for (std::size_t lane = 0; lane < V; lane += W)
            store<N, W>(share + lane, load<N, W>(dy + b * V + lane) / static_cast<Real>(pixels));
          for (std::size_t p = 0; p < pixels; ++p)
            std::copy(share, share + V, dx + (b * pixels + p) * V);
        }
      });
}

/// Adjacent channels of y that are adjacent in x, too, or are all missing there.
struct channel_run {
  std::size_t first, size;  // in y, padding included
  int source;               // the first one in x; negative: x has none of them
};

/// Calls f(run) for all channels of y. A run ends with a block of either.
template <int VX, int VY, class F>
void for_each_channel_run(const subsample_problem& p, const F& f) {
  const auto source_of = [&](std::size_t lane) {
    const int from = p.source(static_cast<int>(lane));
    return from >= 0 && from < p.in.channels ? from : -1;
  };
  const std::size_t lanes = channel_blocks(p.out.channels, VY) * VY;
  for (std::size_t lane = 0; lane < lanes;) {
    channel_run run{lane, 1, source_of(lane)};
    while ((lane + run.size) % VY != 0) {
      const int next = source_of(lane + run.size);
      if (run.source < 0 ? next >= 0
                         : next != run.source + static_cast<int>(run.size) || next % VX == 0)
        break;
      ++run.size;
    }
    f(run);
    lane += run.size;
  }
}

/// Copies n numbers; a block or half of one by registers.
template <int V, class N>
[[gnu::always_inline]] inline void copy_channels(std::size_t n, const N* from, N* to) {
  if (n == V)
    std::copy(from, from + V, to);
  else if (2 * n == V)
    std::copy(from, from + V / 2, to);
  else
    for (std::size_t k = 0; k < n; ++k) to[k] = from[k];
}

/// Calls f(run, index in x, index in y) for every run of channels of every pixel of y, of samples
/// first .. last-1. The index in x is 0 where x has no such channels.
template <int VX, int VY, class F>
void for_each_subsampled(const subsample_problem& p, std::size_t first, std::size_t last,
                         const F& f) {
  const auto stride = static_cast<std::size_t>(p.stride);
  const auto width = static_cast<std::size_t>(p.out.width), pixels = p.out.pixels(),
             x_row = stride * static_cast<std::size_t>(p.in.width) * VX;
  for (std::size_t n = first; n < last; ++n)
    for_each_channel_run<VX, VY>(p, [&](const channel_run& run) {
      std::size_t y = n * sample_size(p.out, VY) + run.first / VY * pixels * VY + run.first % VY;
      if (run.source < 0) {
        for (std::size_t pixel = 0; pixel < pixels; ++pixel, y += VY) f(run, 0, y);
        return;
      }
      const auto c = static_cast<std::size_t>(run.source);
      std::size_t x = n * sample_size(p.in, VX) + c / VX * p.in.pixels() * VX + c % VX;
      for (std::size_t row = 0; row < pixels / width; ++row, x += x_row)
        for (std::size_t column = 0; column < width; ++column, y += VY)
          f(run, x + column * stride * VX, y);
    });
}

template <class N, int VX, int VY>
void subsample_forward(const subsample_problem& p, int samples,
                       const N* x,  // (samples, C / VX, H, W, VX)
                       N* y,        // (samples, K / VY, I, J, VY)
                       cpu::stream s) {
  device::parallel_chunks(
      s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
        const N zero[std::size_t{VY}] = {};
        for_each_subsampled<VX, VY>(
            p, first, last, [&](const channel_run& run, std::size_t i, std::size_t o) {
              copy_channels<VY>(run.size, run.source < 0 ? zero : x + i, y + o);
            });
      });
}

/// dx is zero at the pixels that y does not read.
template <class N, int VX, int VY>
void subsample_backward(const subsample_problem& p, int samples, const N* dy, N* dx,
                        cpu::stream s) {
  const std::size_t size = sample_size(p.in, VX);
  device::parallel_chunks(
      s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
        std::fill(dx + first * size, dx + last * size, N{});
        for_each_subsampled<VX, VY>(p, first, last,
                                    [=](const channel_run& run, std::size_t i, std::size_t o) {
                                      if (run.source >= 0)
                                        copy_channels<VY>(run.size, dy + o, dx + i);
                                    });
      });
}

/// The integers that a comparison of vectors of Real returns.
template <class Real>
using mask_element = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;

template <class N, int V>
[[gnu::noinline]] void block_max_pool(const max_pool_problem& p, const N* x, N* y,
                                      std::uint8_t* argmax) {
  using Real = precision::wide<N>;
  constexpr int W = register_lanes<Real, V>;
  using vector = vec<Real, W>;
  using indices = vec<mask_element<Real>, W>;
  const extent out = p.out();
  for (int i = 0; i < out.height; ++i)
    for (int j = 0; j < out.width; ++j, y += V, argmax += V) {
      const auto [r0, r1] = p.taps(i, p.in.height);
      const auto [s0, s1] = p.taps(j, p.in.width);
      const std::ptrdiff_t corner =
          std::ptrdiff_t{i * p.stride - p.padding} * p.in.width + (j * p.stride - p.padding);
      for (int lane = 0; lane < V; lane += W) {
        const N* const from = x + corner * V + lane;
        vector best = load<N, W>(from + (std::ptrdiff_t{r0} * p.in.width + s0) * V);
        indices tap = indices{} + (r0 * p.window + s0);
        for (int r = r0; r < r1; ++r)
          for (int s = s0; s < s1; ++s) {
            const vector z = load<N, W>(from + (std::ptrdiff_t{r} * p.in.width + s) * V);
            const indices larger = (z > best) | (z != z);
            best = larger ? z : best;
            tap = larger ? indices{} + (r * p.window + s) : tap;
          }
        store<N, W>(y + lane, best);
        store<std::uint8_t, W>(argmax + lane, __builtin_convertvector(tap, vec<std::uint8_t, W>));
      }
    }
}

/// Windows of a max pool that cover a pixel, and the gradient that each passes on.
template <class N, int W>
struct covering_windows {
  using real = precision::wide<N>;
  using vector = vec<real, W>;
  using indices = vec<mask_element<real>, W>;

  const N* dy;                 // of the first window
  const std::uint8_t* argmax;  // of the first window
  std::ptrdiff_t below, right;
  int tap, tap_below, tap_right;  // the pixel's tap in the first window, and steps from it

  /// sum + the gradients of rows x columns of windows.
  [[gnu::always_inline]] vector add_to(vector sum, int rows, int columns) const {
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) {
        const std::ptrdiff_t at = i * below + j * right;
        const indices maximum =
            __builtin_convertvector((load<std::uint8_t, W>(argmax + at)), indices);
        const vector zero{}, gradient = load<N, W>(dy + at);
        sum += maximum == indices{} + (tap - i * tap_below - j * tap_right) ? gradient : zero;
      }
    return sum;
  }
};

template <class N, int V>
[[gnu::noinline]] void block_max_pool_gradient(const max_pool_problem& p, const N* dy,
                                               const std::uint8_t* argmax, N* dx, write_mode mode) {
  using Real = precision::wide<N>;
  constexpr int W = register_lanes<Real, V>;
  using vector = vec<Real, W>;
  const extent out = p.out();
  const std::ptrdiff_t below = std::ptrdiff_t{out.width} * V;
  max_pool_problem::range rows{0, 0};
  for (int h = 0; h < p.in.height; ++h) {
    p.advance(rows, h, out.height);
    const int count = rows.last - rows.first;
    max_pool_problem::range columns{0, 0};
    for (int l = 0; l < p.in.width; ++l, dx += V) {
      p.advance(columns, l, out.width);
      const int across = columns.last - columns.first;
      const std::ptrdiff_t first = (rows.first * std::ptrdiff_t{out.width} + columns.first) * V;
      const int tap = (h + p.padding - rows.first * p.stride) * p.window +
                      (l + p.padding - columns.first * p.stride);
      for (int lane = 0; lane < V; lane += W) {
        const covering_windows<N, W> windows{
            dy + first + lane, argmax + first + lane, below, V, tap, p.stride * p.window, p.stride};
        vector sum = mode == write_mode::add ? load<N, W>(dx + lane) : vector{};
        // Loops of known lengths take half of the time in bf16. A window of three has these where
        // the stride is two.
        const bool few = across == 1 || across == 2;  // 0: no window reads this column
        if (count == 1 && few)
          sum = across == 1 ? windows.add_to(sum, 1, 1) : windows.add_to(sum, 1, 2);
        else if (count == 2 && few)
          sum = across == 1 ? windows.add_to(sum, 2, 1) : windows.add_to(sum, 2, 2);
        else
          sum = windows.add_to(sum, count, across);
        store<N, W>(dx + lane, sum);
      }
    }
  }
}

/// argmax <- the tap of each number of y that was the maximum. Saved for backward, as computing it
/// again would read x: sixteen times as many bytes for a 3x3 window of stride 2 in FP32, and
/// possibly no longer in the cache.
template <class N, int V>
void max_pool_forward(const max_pool_problem& p, int samples,
                      const N* x,            // (samples, C / V, H, W, V)
                      N* y,                  // (samples, C / V, I, J, V)
                      std::uint8_t* argmax,  // (samples, C / V, I, J, V)
                      cpu::stream s) {
  const std::size_t blocks = channel_blocks(p.in.channels, V);
  const std::size_t read = p.in.pixels() * V, written = p.out().pixels() * V;
  device::parallel_chunks(
      s, static_cast<std::size_t>(samples) * blocks, 1, [=](std::size_t first, std::size_t last) {
        for (std::size_t b = first; b < last; ++b)
          block_max_pool<N, V>(p, x + b * read, y + b * written, argmax + b * written);
      });
}

/// Every number of dx sums over the windows that cover it, so that one worker writes it, once.
template <class N, int V>
void max_pool_backward(const max_pool_problem& p, int samples,
                       const N* dy,                 // (samples, C / V, I, J, V)
                       const std::uint8_t* argmax,  // (samples, C / V, I, J, V)
                       N* dx,                       // (samples, C / V, H, W, V)
                       write_mode mode, cpu::stream s) {
  const std::size_t blocks = channel_blocks(p.in.channels, V);
  const std::size_t read = p.out().pixels() * V, written = p.in.pixels() * V;
  device::parallel_chunks(s, static_cast<std::size_t>(samples) * blocks, 1,
                          [=](std::size_t first, std::size_t last) {
                            for (std::size_t b = first; b < last; ++b)
                              block_max_pool_gradient<N, V>(p, dy + b * read, argmax + b * read,
                                                            dx + b * written, mode);
                          });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
