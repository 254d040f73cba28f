// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of engine `direct`'s weight gradient: taps x blocks of V filters x channels, all in
// registers while it sums over pixels.
//
//   dw[s, b, c] += sum over pixels t of  x[s, t, c] dy[b, t]
//
// `wgrad_tile` sums one tap, or three window rows of an image of few channels. For the 3x3 window
// with padding 1, `wgrad_tile_rows3x3` sums the three taps of a row and `wgrad_tile_image3x3`, for
// few channels, all nine, on the input in place: a pixel of zeros is read for pixels outside the
// image (rows3x3.hpp). X is the type of x and dy: that of the sums, or a pair of bf16 of two
// samples (bfloat_dot.hpp). All prefetch what the next rows read, a cache line with each pixel.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/engines/direct/tiles/bfloat_dot.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The pixels that one tile sums over. Pitches count numbers.
struct pixel_area {
  int samples = 1, rows = 0, columns = 0;                         // of dy
  std::ptrdiff_t x_sample = 0, x_row = 0, x_step = 0, x_tap = 0;  // x_tap: from window row to row
  std::ptrdiff_t dy_sample = 0, dy_row = 0, dy_block = 0;
  std::ptrdiff_t dw_tap = 0, dw_block = 0;
  int taps = 1;                 // of the tile, that are added to dw
  bool add = true;              // to dw instead of overwriting it: wgrad_tile alone overwrites
  std::ptrdiff_t prefetch = 0;  // how far ahead: of x, or with three taps of dy
  bool prefetch_dy = false;     // with one tap, too
};

/// Sums of Taps x Blocks x Channels. They stay in registers across all rows: loading them for each
/// row costs 20 to 40 %.
template <class Real, int V, int Taps, int Blocks, int Channels>
struct weight_sums {
  vec<Real, V> sum[std::size_t{Taps}][std::size_t{Blocks}][std::size_t{Channels}];

  /// f(sum, its address in dw) for the first `taps` taps.
  template <class F>
  [[gnu::always_inline]] void for_each(const pixel_area& area, int taps, Real* dw, const F& f) {
#pragma GCC unroll 32
    for (int r = 0; r < Taps; ++r)
      if (r < taps)
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
          for (int c = 0; c < Channels; ++c)
            f(sum[r][b][c], dw + r * area.dw_tap + b * area.dw_block + c * V);
  }
};

/// Channels of a block in a tile of `others` taps or blocks: a power of two, as V is.
template <class Real, int V>
constexpr int channels_per_tile(int others) {
  int n = V;
  while (n > 1 && n * others > tile_registers<Real, V>) n /= 2;
  return n;
}

/// Filter blocks to a tile: with twelve sums, three blocks of four channels need the fewest loads.
/// So do, with 28 and a load for each number of x, four of NEON's four channels, or three of eight.
template <class Real, int V>
inline constexpr int max_filter_blocks = tile_registers<Real, V> == 12                        ? 3
                                         : !many_registers<Real, V> || sizeof(Real) * V == 64 ? 2
                                         : sizeof(Real) * V == 16                             ? 4
                                                                                              : 3;

template <class X, int V, int Taps, int Blocks, int Channels>
[[gnu::noinline]] void wgrad_tile(const pixel_area& area, const X* x, const X* dy, sum_of<X>* dw) {
  using Real = sum_of<X>;
  weight_sums<Real, V, Taps, Blocks, Channels> tile{};
  auto& sum = tile.sum;
  const std::ptrdiff_t step = area.x_step, block = area.dy_block;
  const bool ahead_of_x = Taps == 1 && !area.prefetch_dy;
  for (int n = 0; n < area.samples; ++n, x += area.x_sample, dy += area.dy_sample) {
    const X *x_row = x, *dy_row = dy;
    for (int i = 0; i < area.rows; ++i, x_row += area.x_row, dy_row += area.dy_row) {
      const X *px = x_row, *pd = dy_row, *next = (ahead_of_x ? px : pd) + area.prefetch;
      for (const X* const end = pd + area.columns * V; pd != end;
           px += step, pd += V, next += ahead_of_x ? step : V) {
        __builtin_prefetch(next, 0, sizeof(Real) * V == 64 ? 2 : 3);  // of caches
        vec<X, V> d[std::size_t{Blocks}];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b) d[b] = load<X, V>(pd + b * block);
        if (!many_registers<Real, V>) compiler_barrier();
#pragma GCC unroll 32
        for (int r = 0; r < Taps; ++r)
#pragma GCC unroll 32
          for (int c = 0; c < Channels; ++c)
#pragma GCC unroll 32
            for (int b = 0; b < Blocks; ++b)
              add_product<X, V>(sum[r][b][c], px[r * area.x_tap + c], d[b]);
      }
    }
  }
  tile.for_each(area, area.taps, dw, [add = area.add](const vec<Real, V>& s, Real* w) {
    store<Real, V>(w, add ? load<Real, V>(w) + s : s);
  });
}

template <class X, int V, int Blocks>
inline constexpr auto single_tap_tile_of =
    wgrad_tile<X, V, 1, Blocks, channels_per_tile<X, V>(Blocks)>;
/// The `wgrad_tile` of a single tap for `blocks` filter blocks, at most max_filter_blocks, and
/// channels_per_tile(blocks) channels.
template <class X, int V>
constexpr auto single_tap_tile(int blocks) {
  constexpr int most = max_filter_blocks<X, V>;
  static_assert(most <= 4);
  return blocks == most ? single_tap_tile_of<X, V, most>
         : blocks == 3  ? single_tap_tile_of<X, V, std::min(most, 3)>
         : blocks == 2  ? single_tap_tile_of<X, V, 2>
                        : single_tap_tile_of<X, V, 1>;
}

/// What a call prefetches for the calls that follow: the next call's sums at once, and, into the
/// second-level cache, x or dy from `from` on, `step` numbers with each pixel.
template <class X>
struct wgrad_prefetch {
  const X* from;
  std::ptrdiff_t step, sample;
  sum_of<X>* sums;
};

/// The three taps of a window row at stride 1 or 2, one block. The loop runs over pixels of x: each
/// is loaded once for all taps that read it.
template <class X, int V, int Channels, bool Strided>
[[gnu::noinline]] void wgrad_tile_rows3x3(const pixel_area& area, const X* edge, bool overhangs,
                                          const X* x, const X* dy, sum_of<X>* dw,
                                          const wgrad_prefetch<X>& fetch) {
  using Real = sum_of<X>;
  weight_sums<Real, V, 3, 1, Channels> tile;
  auto& sum = tile.sum;
  tile.for_each(area, 3, dw, [](vec<Real, V>& s, const Real* w) { s = load<Real, V>(w); });
  tile.for_each(area, 3, fetch.sums, [](const vec<Real, V>&, Real* w) { __builtin_prefetch(w); });
  const int last = area.columns - 1;
  const std::ptrdiff_t step = fetch.step;
  for (int n = 0; n < area.samples; ++n, x += area.x_sample, dy += area.dy_sample) {
    const X *x_row = x, *dy_row = dy, *next = fetch.from + n * fetch.sample;
    for (int i = 0; i < area.rows; ++i, x_row += area.x_row, dy_row += area.dy_row) {
      const X *px = x_row, *pd = dy_row;
      vec<X, V> before{}, current = load<X, V>(pd);
      for (int j = 0; j <= last; ++j, px += area.x_step, pd += V, next += step) {
        __builtin_prefetch(next, 0, 2);
        const vec<X, V> after = load<X, V>(j == last ? edge : pd + V);
        // x[2 j] is multiplied with dy[j]; x[2 j + 1] with dy[j] and dy[j + 1]
        const X* const odd = !Strided || (j == last && overhangs) ? edge : px + V;
#pragma GCC unroll 32
        for (int c = 0; c < Channels; ++c) {
          add_product<X, V>(sum[0][0][c], (Strided ? odd : px)[c], after);
          add_product<X, V>(sum[1][0][c], px[c], current);
          add_product<X, V>(sum[2][0][c], Strided ? odd[c] : px[c], Strided ? current : before);
        }
        before = current;
        current = after;
      }
    }
  }
  tile.for_each(area, 3, dw, [](const vec<Real, V>& s, Real* w) { store<Real, V>(w, s); });
}

/// Channels of an image whose nine taps stay in registers; a pixel of zeros has V.
template <class Real, int V>
inline constexpr int image_channels = many_registers<Real, V> && V >= 3 ? 3 : 1;

/// All nine taps of the 3x3 window at stride 1 over images of few channels, one block. For a row
/// outside the image one pixel of zeros is read again and again.
template <class X, int V, int Channels>
[[gnu::noinline]] void wgrad_tile_image3x3(const pixel_area& area, const X* edge, const X* x,
                                           const X* dy, sum_of<X>* dw) {
  using Real = sum_of<X>;
  weight_sums<Real, V, 3, 3, Channels> tile{};
  auto& sum = tile.sum;
  const int last = area.columns - 1;
  for (int n = 0; n < area.samples; ++n, x += area.x_sample, dy += area.dy_sample) {
    const X* pd = dy;
    for (int i = 0; i < area.rows; ++i) {
      const X* px[3];
      std::ptrdiff_t step[3];
      for (int r = 0; r < 3; ++r) {
        const int row = i + r - 1;
        const bool inside = row >= 0 && row < area.rows;
        px[r] = inside ? x + row * area.x_row : edge;
        step[r] = inside ? area.x_step : 0;
      }
      vec<X, V> before{}, current = load<X, V>(pd);
      for (int j = 0; j <= last; ++j, pd += V) {
        __builtin_prefetch(pd + area.prefetch);
        const vec<X, V> after = load<X, V>(j == last ? edge : pd + V);
#pragma GCC unroll 32
        for (int r = 0; r < 3; ++r) {
#pragma GCC unroll 32
          for (int c = 0; c < Channels; ++c) {
            add_product<X, V>(sum[0][r][c], px[r][c], after);
            add_product<X, V>(sum[1][r][c], px[r][c], current);
            add_product<X, V>(sum[2][r][c], px[r][c], before);
          }
          px[r] += step[r];
        }
        before = current;
        current = after;
      }
    }
  }
  tile.for_each(area, 3, dw,
                [](const vec<Real, V>& s, Real* w) { store<Real, V>(w, load<Real, V>(w) + s); });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
