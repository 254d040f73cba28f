// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of engine `direct`'s weight gradient: taps x blocks of V filters x channels, all in
// registers while it sums over pixels.
//
//   dw[s, b, c] += sum over pixels t of  x[s, t, c] dy[b, t]
//
// `gather` takes one tap, or three rows of a narrow window. Of the 3x3 window with padding 1,
// `gather_slide` takes the three taps of a row and `gather_image`, where channels are few, all
// nine, in place: a pixel of zeros stands for what the image lacks (slide.hpp). All fetch what the
// next rows need, a line with each pixel.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/ops/direct/tile.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// The pixels that one tile sums over. Pitches count numbers.
struct pixel_area {
  int samples = 1, rows = 0, columns = 0;                         // of dy
  std::ptrdiff_t x_sample = 0, x_row = 0, x_step = 0, x_tap = 0;  // x_tap: between taps' rows
  std::ptrdiff_t dy_sample = 0, dy_row = 0, dy_block = 0;
  std::ptrdiff_t dw_tap = 0, dw_block = 0;
  int taps = 1;              // how many of the tile's tap rows are wanted
  std::ptrdiff_t ahead = 0;  // what `gather` fetches on the way: of x, or with three taps of dy
};

/// Sums of Taps x Blocks x Channels. They stay in registers across all rows: reloading them per row
/// costs 20 to 40 %.
template <class Real, int V, int Taps, int Blocks, int Channels>
struct weight_sums {
  vec<Real, V> sum[Taps][Blocks][Channels];

  /// f(sum, where it belongs in dw) for the first `taps` of them.
  template <class F>
  [[gnu::always_inline]] void each(const pixel_area& area, int taps, Real* dw, const F& f) {
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

/// How many channels of a block fit beside `others` taps and blocks: a power of two, as V is.
template <class Real, int V>
constexpr int channels_at_once(int others) {
  int n = V;
  while (n > 1 && n * others > tile_registers<Real, V>) n /= 2;
  return n;
}

/// Filter blocks to a tile: with twelve sums, three blocks of four channels ask for fewest loads.
template <class Real, int V>
inline constexpr int filter_blocks = tile_registers<Real, V> == 12 ? 3 : 2;

template <class Real, int V, int Taps, int Blocks, int Channels>
[[gnu::noinline]] void gather(const pixel_area& area, const Real* x, const Real* dy, Real* dw) {
  weight_sums<Real, V, Taps, Blocks, Channels> to{};
  auto& sum = to.sum;
  const std::ptrdiff_t step = area.x_step, block = area.dy_block, ahead = area.ahead;
  for (int n = 0; n < area.samples; ++n, x += area.x_sample, dy += area.dy_sample) {
    const Real *x_row = x, *dy_row = dy;
    for (int i = 0; i < area.rows; ++i, x_row += area.x_row, dy_row += area.dy_row) {
      const Real *px = x_row, *pd = dy_row;
      for (const Real* const end = pd + area.columns * V; pd != end; px += step, pd += V) {
        __builtin_prefetch((Taps == 1 ? px : pd) + ahead);
        vec<Real, V> d[Blocks];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b) d[b] = load<Real, V>(pd + b * block);
        if (!many_registers<Real, V>) hold();
#pragma GCC unroll 32
        for (int r = 0; r < Taps; ++r)
#pragma GCC unroll 32
          for (int c = 0; c < Channels; ++c)
#pragma GCC unroll 32
            for (int b = 0; b < Blocks; ++b) sum[r][b][c] += px[r * area.x_tap + c] * d[b];
      }
    }
  }
  to.each(area, area.taps, dw,
          [](const vec<Real, V>& s, Real* w) { store<Real, V>(w, load<Real, V>(w) + s); });
}

/// `gather` of a lone tap for so many blocks of filters, filter_blocks at most, each with
/// channels_at_once(blocks).
template <class Real, int V, int Blocks>
inline constexpr auto gather_lone = gather<Real, V, 1, Blocks, channels_at_once<Real, V>(Blocks)>;
template <class Real, int V>
constexpr auto gather_of(int blocks) {
  constexpr int most = filter_blocks<Real, V>;
  return blocks == most ? gather_lone<Real, V, most>
         : blocks == 2  ? gather_lone<Real, V, 2>
                        : gather_lone<Real, V, 1>;
}

/// What follows a call, fetched on its way: the next call's sums at once, and into the second-level
/// cache x or dy from `at` on, `step` numbers with a pixel.
template <class Real>
struct fetched {
  const Real* at;
  std::ptrdiff_t step, sample;
  Real* sums;
};

/// The three taps of a window row at stride 1 or 2, one block. It is the pixels of x that are
/// walked over: one that is loaded serves every tap it meets.
template <class Real, int V, int Channels, bool Strided>
[[gnu::noinline]] void gather_slide(const pixel_area& area, const Real* edge, bool overhangs,
                                    const Real* x, const Real* dy, Real* dw,
                                    const fetched<Real>& fetch) {
  weight_sums<Real, V, 3, 1, Channels> to;
  auto& sum = to.sum;
  to.each(area, 3, dw, [](vec<Real, V>& s, const Real* w) { s = load<Real, V>(w); });
  to.each(area, 3, fetch.sums, [](const vec<Real, V>&, Real* w) { __builtin_prefetch(w); });
  const int last = area.columns - 1;
  const std::ptrdiff_t step = fetch.step;
  for (int n = 0; n < area.samples; ++n, x += area.x_sample, dy += area.dy_sample) {
    const Real *x_row = x, *dy_row = dy, *next = fetch.at + n * fetch.sample;
    for (int i = 0; i < area.rows; ++i, x_row += area.x_row, dy_row += area.dy_row) {
      const Real *px = x_row, *pd = dy_row;
      vec<Real, V> before{}, here = load<Real, V>(pd);
      for (int j = 0; j <= last; ++j, px += area.x_step, pd += V, next += step) {
        __builtin_prefetch(next, 0, 2);
        const vec<Real, V> after = load<Real, V>(j == last ? edge : pd + V);
        // x[2 j] meets dy[j]; x[2 j + 1] meets it and the next
        const Real* const odd = !Strided || (j == last && overhangs) ? edge : px + V;
#pragma GCC unroll 32
        for (int c = 0; c < Channels; ++c) {
          sum[0][0][c] += (Strided ? odd : px)[c] * after;
          sum[1][0][c] += px[c] * here;
          sum[2][0][c] += Strided ? odd[c] * here : px[c] * before;
        }
        before = here;
        here = after;
      }
    }
  }
  to.each(area, 3, dw, [](const vec<Real, V>& s, Real* w) { store<Real, V>(w, s); });
}

/// Channels of an image whose nine taps stay in registers.
template <class Real, int V>
inline constexpr int image_channels = sizeof(Real) * V == 64 ? 3 : 1;

/// All nine taps of the 3x3 window at stride 1 over images of few channels, one block. A row that
/// the image lacks is one pixel of zeros, over and over.
template <class Real, int V, int Channels>
[[gnu::noinline]] void gather_image(const pixel_area& area, const Real* edge, const Real* x,
                                    const Real* dy, Real* dw) {
  weight_sums<Real, V, 3, 3, Channels> to{};
  auto& sum = to.sum;
  const int last = area.columns - 1;
  for (int n = 0; n < area.samples; ++n, x += area.x_sample, dy += area.dy_sample) {
    const Real* pd = dy;
    for (int i = 0; i < area.rows; ++i) {
      const Real* px[3];
      std::ptrdiff_t step[3];
      for (int r = 0; r < 3; ++r) {
        const int row = i + r - 1;
        const bool inside = row >= 0 && row < area.rows;
        px[r] = inside ? x + row * area.x_row : edge;
        step[r] = inside ? area.x_step : 0;
      }
      vec<Real, V> before{}, here = load<Real, V>(pd);
      for (int j = 0; j <= last; ++j, pd += V) {
        __builtin_prefetch(pd + area.ahead);
        const vec<Real, V> after = load<Real, V>(j == last ? edge : pd + V);
#pragma GCC unroll 32
        for (int r = 0; r < 3; ++r) {
#pragma GCC unroll 32
          for (int c = 0; c < Channels; ++c) {
            sum[0][r][c] += px[r][c] * after;
            sum[1][r][c] += px[r][c] * here;
            sum[2][r][c] += px[r][c] * before;
          }
          px[r] += step[r];
        }
        before = here;
        here = after;
      }
    }
  }
  to.each(area, 3, dw,
          [](const vec<Real, V>& s, Real* w) { store<Real, V>(w, load<Real, V>(w) + s); });
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
