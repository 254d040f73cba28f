// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The ops that change the extent without parameters as grids: average pool, subsampling, max pool
// (ops/pooling.hpp, whose order of sums and choice among equals they keep).
//
// A thread writes a pack of channels of one place and gathers for it, so nothing is written twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/grid/blocked.hpp>
#include <cordee/ops/grid/pack.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// Pack i of the means over pixels.
template <Number N>
struct averages {
  blocked in;
  int width;
  const N* x;
  N* y;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t first = i * static_cast<std::size_t>(width), plane = first / in.V;
    const N* const from = x + plane * in.pixels * in.V + first % in.V;
    pack<N> sum;
    for (std::size_t p = 0; p < in.pixels; ++p) {
      const pack<N> z(from + p * in.V, width);
      for (int k = 0; k < z.size; ++k) sum.at[k] += z.at[k];
    }
    for (wide<N>& one : sum.at) one /= static_cast<wide<N>>(in.pixels);
    sum.store(y + first, width);
  }
};

/// Pack i of the gradient of x, a share of its plane's.
template <Number N>
struct spreads {
  blocked in;
  int width;
  const N* dy;
  N* dx;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t first = i * static_cast<std::size_t>(width);
    const std::size_t plane = first / in.V / in.pixels;
    pack<N> z(dy + plane * in.V + first % in.V, width);
    for (wide<N>& one : z.at) one /= static_cast<wide<N>>(in.pixels);
    z.store(dx + first, width);
  }
};

/// Number o of y.
template <Number N>
struct subsamples {
  subsample_problem at;
  blocked in, out;
  const N* x;
  N* y;

  CORDEE_DEVICE void operator()(std::size_t o) const {
    const blocked::place to = out.at(o);
    const int from = at.source(static_cast<int>(to.channel));
    const auto width = static_cast<std::size_t>(at.out.width);
    const auto stride = static_cast<std::size_t>(at.stride);
    const std::size_t row = to.pixel / width * stride, column = to.pixel % width * stride;
    y[o] = from < 0 || from >= at.in.channels
               ? N{}
               : x[in.index({to.sample, static_cast<std::size_t>(from),
                             row * static_cast<std::size_t>(at.in.width) + column})];
  }
};

/// Number i of the gradient of x: what the only number of y that shows it received, if one does.
template <Number N>
struct supersamples {
  subsample_problem at;
  blocked in, out;
  const N* dy;
  N* dx;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const blocked::place from = in.at(i);
    const auto pixel = static_cast<int>(from.pixel);
    const int h = pixel / at.in.width, l = pixel % at.in.width;
    const int row = h / at.stride, column = l / at.stride;
    const bool shown = from.channel < in.channels && h % at.stride == 0 && l % at.stride == 0 &&
                       row < at.out.height && column < at.out.width;
    const auto lane = static_cast<int>(from.channel) - at.source(0);
    dx[i] = shown ? dy[out.index({from.sample, static_cast<std::size_t>(lane),
                                  static_cast<std::size_t>(row * at.out.width + column)})]
                  : N{};
  }
};

/// Pack i of the maxima and where they were.
template <Number N>
struct maxima {
  max_pool_problem at;
  extent to;
  blocked in, out;
  int width;
  const N* x;
  N* y;
  std::uint8_t* where;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t first = i * static_cast<std::size_t>(width);
    const blocked::place here = out.at(first);
    const auto pixel = static_cast<int>(here.pixel);
    const int row = pixel / to.width, column = pixel % to.width;
    const auto [r0, r1] = at.taps(row, at.in.height);
    const auto [s0, s1] = at.taps(column, at.in.width);
    const N* const plane = x + in.index({here.sample, here.channel, 0});
    pack<N> best;
    int place[pack<N>::size] = {};
    for (int r = r0; r < r1; ++r)
      for (int s = s0; s < s1; ++s) {
        const int h = row * at.stride - at.padding + r, l = column * at.stride - at.padding + s;
        const pack<N> z(plane + static_cast<std::size_t>(h * at.in.width + l) * in.V, width);
        const bool begins = r == r0 && s == s0;
        for (int k = 0; k < z.size; ++k)
          if (begins || z.at[k] > best.at[k] || z.at[k] != z.at[k]) {
            best.at[k] = z.at[k];
            place[k] = r * at.window + s;
          }
      }
    best.store(y + first, width);
    for (int k = 0; k < best.size; ++k)
      if (k < width)
        where[first + static_cast<std::size_t>(k)] = static_cast<std::uint8_t>(place[k]);
  }
};

/// Pack i of the gradient of x: from the windows that see it, in the order of the windows.
template <Number N>
struct gathers {
  max_pool_problem at;
  extent to;
  blocked in, out;
  int width;
  const N* dy;
  const std::uint8_t* where;
  N* dx;
  bool adds;

  /// The windows along a side of `count` that see place h of it.
  CORDEE_DEVICE max_pool_problem::range seeing(int h, int count) const {
    const int past = h + at.padding - at.window;
    return {past < 0 ? 0 : past / at.stride + 1, std::min((h + at.padding) / at.stride + 1, count)};
  }
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t first = i * static_cast<std::size_t>(width);
    const blocked::place here = in.at(first);
    const auto pixel = static_cast<int>(here.pixel);
    const int h = pixel / at.in.width, l = pixel % at.in.width;
    const auto [i0, i1] = seeing(h, to.height);
    const auto [j0, j1] = seeing(l, to.width);
    const std::size_t plane = out.index({here.sample, here.channel, 0});
    pack<N> sum;
    if (adds) sum = pack<N>(dx + first, width);
    for (int row = i0; row < i1; ++row)
      for (int column = j0; column < j1; ++column) {
        const std::size_t from = plane + static_cast<std::size_t>(row * to.width + column) * out.V;
        const pack<N> g(dy + from, width);
        const int tap =
            (h + at.padding - row * at.stride) * at.window + (l + at.padding - column * at.stride);
        for (int k = 0; k < g.size; ++k)
          if (k < width && where[from + static_cast<std::size_t>(k)] == tap) sum.at[k] += g.at[k];
      }
    sum.store(dx + first, width);
  }
};

}  // namespace detail

/// y (samples, lanes) <- mean of x (samples, lanes / V, pixels, V).
template <Number N, int V, GridStream S>
void average_pool_forward(const extent& in, int samples, const N* x, N* y, S s) {
  const detail::blocked from(in, V);
  const int width = detail::pack_width<N>(V, x, y);
  for_each(s, static_cast<std::size_t>(samples) * from.lanes() / static_cast<std::size_t>(width),
           detail::averages<N>{from, width, x, y});
}

/// dx <- dy / pixels everywhere.
template <Number N, int V, GridStream S>
void average_pool_backward(const extent& in, int samples, const N* dy, N* dx, S s) {
  const detail::blocked to(in, V);
  const int width = detail::pack_width<N>(V, dy, dx);
  for_each(s, static_cast<std::size_t>(samples) * to.size() / static_cast<std::size_t>(width),
           detail::spreads<N>{to, width, dy, dx});
}

template <Number N, int VX, int VY, GridStream S>
void subsample_forward(const subsample_problem& at, int samples, const N* x, N* y, S s) {
  const detail::blocked in(at.in, VX), out(at.out, VY);
  for_each(s, static_cast<std::size_t>(samples) * out.size(),
           detail::subsamples<N>{at, in, out, x, y});
}

/// dx is zero but where y looked.
template <Number N, int VX, int VY, GridStream S>
void subsample_backward(const subsample_problem& at, int samples, const N* dy, N* dx, S s) {
  const detail::blocked in(at.in, VX), out(at.out, VY);
  for_each(s, static_cast<std::size_t>(samples) * in.size(),
           detail::supersamples<N>{at, in, out, dy, dx});
}

/// `where`, one byte for every number of y, says which tap was the maximum.
template <Number N, int V, GridStream S>
void max_pool_forward(const max_pool_problem& at, int samples, const N* x, N* y,
                      std::uint8_t* where, S s) {
  const detail::blocked in(at.in, V), out(at.out(), V);
  const int width = detail::pack_width<N>(V, x, y);
  for_each(s, static_cast<std::size_t>(samples) * out.size() / static_cast<std::size_t>(width),
           detail::maxima<N>{at, at.out(), in, out, width, x, y, where});
}

/// Every number of dx gathers from the windows that see it.
template <Number N, int V, GridStream S>
void max_pool_backward(const max_pool_problem& at, int samples, const N* dy,
                       const std::uint8_t* where, N* dx, into how, S s) {
  const detail::blocked in(at.in, V), out(at.out(), V);
  const int width = detail::pack_width<N>(V, dy, dx);
  for_each(s, static_cast<std::size_t>(samples) * in.size() / static_cast<std::size_t>(width),
           detail::gathers<N>{at, at.out(), in, out, width, dy, where, dx, how == into::add});
}

}  // namespace cordee::inline CORDEE_ABI
