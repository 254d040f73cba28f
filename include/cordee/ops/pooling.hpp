// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ops that change the extent without parameters: the global average pool, y_c = mean over pixels of
// x_c; the subsampling shortcut of CIFAR ResNets (He et al., 2016, option A); and the max pool,
//
//   y[c, i, j] = max over r, s of x[c, i t + r - p, j t + s - p]    inside the image only
//   dx[c, h, l] = sum of the dy[c, i, j] whose maximum was there: among equals the first, by rows
//
// with stride t and padding p. Not a number counts as a maximum, the last of several (as PyTorch).
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>
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

/// Square windows; padding is at most half of one, so that each of them sees a pixel.
struct max_pool_problem {
  /// A window's places fit a byte.
  static constexpr int largest_window = 16;

  extent in;
  int window = 3, stride = 2, padding = 1;

  [[nodiscard]] constexpr extent out() const {
    return {in.channels, (in.height + 2 * padding - window) / stride + 1,
            (in.width + 2 * padding - window) / stride + 1};
  }
  /// The taps first .. last-1 of window i that lie inside a side of that length.
  struct range {
    int first, last;
  };
  [[nodiscard]] constexpr range taps(int i, int side) const {
    const int start = i * stride - padding;
    return {std::max(0, -start), std::min(window, side - start)};
  }
  /// From the windows that see place h-1 of a side to those, of `count`, that see place h: from
  /// {0, 0} on, place by place. (Found by dividing, they took most of backward's time.)
  constexpr void advance(range& seeing, int h, int count) const {
    while (seeing.last < count && seeing.last * stride <= h + padding) ++seeing.last;
    while (seeing.first * stride + window <= h + padding) ++seeing.first;
  }
};

namespace detail {

/// Lanes that are treated at once: all, unless they fill no register.
template <int V>
inline constexpr int pool_lanes = std::has_single_bit(static_cast<unsigned>(V)) ? V : 1;

/// The whole numbers of a comparison of Reals.
template <class Real>
using mask_of = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;

template <class Real, int V>
[[gnu::noinline]] void block_max_pool(const max_pool_problem& at, const Real* x, Real* y,
                                      std::uint8_t* where) {
  constexpr int W = pool_lanes<V>;
  using pack = vec<Real, W>;
  using places = vec<mask_of<Real>, W>;
  const extent out = at.out();
  for (int i = 0; i < out.height; ++i)
    for (int j = 0; j < out.width; ++j, y += V, where += V) {
      const auto [r0, r1] = at.taps(i, at.in.height);
      const auto [s0, s1] = at.taps(j, at.in.width);
      const std::ptrdiff_t corner =
          std::ptrdiff_t{i * at.stride - at.padding} * at.in.width + (j * at.stride - at.padding);
      for (int lane = 0; lane < V; lane += W) {
        const Real* const from = x + corner * V + lane;
        pack best = load<Real, W>(from + (std::ptrdiff_t{r0} * at.in.width + s0) * V);
        places place = places{} + (r0 * at.window + s0);
        for (int r = r0; r < r1; ++r)
          for (int s = s0; s < s1; ++s) {
            const pack here = load<Real, W>(from + (std::ptrdiff_t{r} * at.in.width + s) * V);
            const places larger = (here > best) | (here != here);
            best = larger ? here : best;
            place = larger ? places{} + (r * at.window + s) : place;
          }
        store<Real, W>(y + lane, best);
        store<std::uint8_t, W>(where + lane, __builtin_convertvector(place, vec<std::uint8_t, W>));
      }
    }
}

template <class Real, int V>
[[gnu::noinline]] void block_max_pool_gradient(const max_pool_problem& at, const Real* dy,
                                               const std::uint8_t* where, Real* dx, into how) {
  constexpr int W = pool_lanes<V>;
  using pack = vec<Real, W>;
  using places = vec<mask_of<Real>, W>;
  const extent out = at.out();
  max_pool_problem::range rows{0, 0};
  for (int h = 0; h < at.in.height; ++h) {
    at.advance(rows, h, out.height);
    max_pool_problem::range columns{0, 0};
    for (int l = 0; l < at.in.width; ++l, dx += V) {
      at.advance(columns, l, out.width);
      for (int lane = 0; lane < V; lane += W) {
        pack sum = how == into::add ? load<Real, W>(dx + lane) : pack{};
        for (int i = rows.first; i < rows.last; ++i)
          for (int j = columns.first; j < columns.last; ++j) {
            const std::ptrdiff_t from = (std::ptrdiff_t{i} * out.width + j) * V + lane;
            const int here = (h + at.padding - i * at.stride) * at.window +  //
                             (l + at.padding - j * at.stride);
            const places place =
                __builtin_convertvector(load<std::uint8_t, W>(where + from), places);
            sum += place == places{} + here ? load<Real, W>(dy + from) : pack{};
          }
        store<Real, W>(dx + lane, sum);
      }
    }
  }
}

}  // namespace detail

/// `where`, one byte for every number of y, says which tap was the maximum. It is kept because
/// finding it again would read x, which is sixteen times as many bytes for a 3x3 window of stride 2
/// and FP32, and may then no longer be in the cache.
template <class Real, int V>
void max_pool_forward(const max_pool_problem& at, int samples, const Real* x, Real* y,
                      std::uint8_t* where, cpu::stream s) {
  const std::size_t blocks = blocks_of(at.in.channels, V);
  const std::size_t read = at.in.pixels() * V, written = at.out().pixels() * V;
  parallel(
      s, static_cast<std::size_t>(samples) * blocks, 1, [=](std::size_t first, std::size_t last) {
        for (std::size_t b = first; b < last; ++b)
          detail::block_max_pool<Real, V>(at, x + b * read, y + b * written, where + b * written);
      });
}

/// Every number of dx gathers from the windows that see it, so it is written once, by one worker.
template <class Real, int V>
void max_pool_backward(const max_pool_problem& at, int samples, const Real* dy,
                       const std::uint8_t* where, Real* dx, into how, cpu::stream s) {
  const std::size_t blocks = blocks_of(at.in.channels, V);
  const std::size_t read = at.out().pixels() * V, written = at.in.pixels() * V;
  parallel(s, static_cast<std::size_t>(samples) * blocks, 1,
           [=](std::size_t first, std::size_t last) {
             for (std::size_t b = first; b < last; ++b)
               detail::block_max_pool_gradient<Real, V>(at, dy + b * read, where + b * read,
                                                        dx + b * written, how);
           });
}

}  // namespace cordee::inline CORDEE_ABI
