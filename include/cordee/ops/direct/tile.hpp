// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The two inner loops of engine `direct`: as many accumulators as the register file holds, and one
// broadcast or one load for each register of operands.
//
//   correlate:  y[b, t] += sum over taps and their channels c of  x[t, c] w[b, c]   (pixels x
//   blocks) gather:     dw[r, b, c] += sum over pixels t of               x[r, t, c] dy[b, t]
//
// A register holds V output channels. A tile of T pixels x B blocks of V channels costs T + B loads
// for T B products, so two blocks beat one wherever there are two. One function per shape of tile:
// neither windows nor layers instantiate anything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// Accumulators that leave room for the operands. Without embedded broadcasts an operand takes a
/// register, and without FMA the product takes another.
template <class Real, int V>
inline constexpr int tile_registers = sizeof(Real) * V == 64   ? 28
                                      : sizeof(Real) * V == 32 ? 12
                                                               : 8;

/// One position of the window and some channels there: where input and weights begin.
struct tap {
  std::ptrdiff_t x = 0, w = 0;
  int channels = 0;
};

/// Where the tile of a row lies. Pitches count numbers.
template <class Real>
struct row_tile {
  const Real* x;           // pixels follow one another
  const Real* w;           // block 0
  std::ptrdiff_t w_block;  // from block to block
  Real* y;                 // pixel 0, block 0
  std::ptrdiff_t y_block, y_step;
  bool add;               // to what y holds
  std::ptrdiff_t w_span;  // from a tap's weights to those of the tap one pixel on
};

/// A tap stands for `Span` of them, one pixel apart. With one block only, three taps at once need
/// no more broadcasts than one: a pixel serves three sums.
template <class Real, int V, int Blocks, int Span, int Pixels>
[[gnu::noinline]] void correlate(const row_tile<Real>& at, const tap* first, const tap* last) {
  vec<Real, V> sum[Blocks][Pixels];
  if (at.add) {
#pragma GCC unroll 32
    for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
      for (int t = 0; t < Pixels; ++t)
        sum[b][t] = load<Real, V>(at.y + b * at.y_block + t * at.y_step);
  } else {
#pragma GCC unroll 32
    for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
      for (int t = 0; t < Pixels; ++t) sum[b][t] = vec<Real, V>{};
  }
  for (; first != last; ++first) {
    const Real* x = at.x + first->x;
    const Real* w = at.w + first->w;
    for (const Real* const end = x + first->channels; x != end; ++x, w += V) {
      vec<Real, V> weight[Blocks][Span];
#pragma GCC unroll 32
      for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
        for (int s = 0; s < Span; ++s)
          weight[b][s] = load<Real, V>(w + b * at.w_block + s * at.w_span);
#pragma GCC unroll 32
      for (int t = 0; t < Pixels + Span - 1; ++t)
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
          for (int s = 0; s < Span; ++s)
            if (t - s >= 0 && t - s < Pixels) sum[b][t - s] += x[t * V] * weight[b][s];
    }
  }
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t)
      store<Real, V>(at.y + b * at.y_block + t * at.y_step, sum[b][t]);
}

/// The lengths of a tile that are compiled, longest first. All lengths would cost three times the
/// compile time: these are what rows of 7, 8, 14, 16, 28 pixels and their multiples fill, and small
/// ones for what remains.
template <int... L>
using lengths = std::integer_sequence<int, L...>;
using row_lengths = lengths<16, 14, 12, 8, 7, 6, 4, 2, 1>;
using few_lengths = lengths<16, 14, 8, 4, 1>;  // where longer rows are rare
using channel_lengths = lengths<16, 8, 4, 1>;  // of a block
using patch_lengths = lengths<9, 3, 1>;        // S C numbers of an image of C = 3 or 1 channels

/// Covers `length` by tiles: as equal as can be, so that none is too short to hide latency, of the
/// largest length in L that fits. call.template operator()<Length>(first) does one of them.
template <int Widest, int... L, class Call>
void cover(lengths<L...>, int length, const Call& call) {
  int first = 0;
  const auto fits = [&]<int Length>(int wanted) {
    if constexpr (Length <= Widest) {
      if (Length > wanted) return false;
      call.template operator()<Length>(first);
      first += Length;
      return true;
    } else {
      return false;
    }
  };
  while (first < length) {
    const int left = length - first, tiles = (left + Widest - 1) / Widest;
    const int wanted = (left + tiles - 1) / tiles;
    (void)(fits.template operator()<L>(wanted) || ...);
  }
}

/// A row of `pixels` and `Blocks` blocks.
template <class Real, int V, int Blocks, int Span>
void correlate_row(row_tile<Real> at, int pixels, const tap* first, const tap* last) {
  constexpr int registers = tile_registers<Real, V>;
  // The weights of a span take registers too.
  constexpr int widest = Span == 1 ? registers / Blocks : registers * 2 / 3;
  using lengths_of = std::conditional_t<Blocks == 1 && Span == 1, few_lengths, row_lengths>;
  const Real* const x = at.x;
  Real* const y = at.y;
  cover<widest>(lengths_of{}, pixels, [&]<int Pixels>(int done) {
    at.x = x + done * V;
    at.y = y + done * at.y_step;
    correlate<Real, V, Blocks, Span, Pixels>(at, first, last);
  });
}

/// The pixels that one tile of the weight gradient sums over.
struct pixel_area {
  int samples = 0, rows = 0, columns = 0;
  std::ptrdiff_t x_sample = 0, x_row = 0, x_step = 0, x_tap = 0;  // x_tap: between taps' rows
  std::ptrdiff_t dy_sample = 0, dy_row = 0, dy_block = 0;
  std::ptrdiff_t dw_tap = 0, dw_block = 0;
  int taps = 1;  // how many of the tile's tap rows are wanted
};

/// The accumulators stay in registers across all rows and samples: reloading them per row costs
/// 20 to 40 %.
template <class Real, int V, int Taps, int Blocks, int Channels>
[[gnu::noinline]] void gather(const pixel_area& area, const Real* x, const Real* dy, Real* dw) {
  vec<Real, V> sum[Taps][Blocks][Channels] = {};
  for (int n = 0; n < area.samples; ++n)
    for (int i = 0; i < area.rows; ++i) {
      const Real* px = x + n * area.x_sample + i * area.x_row;
      const Real* pd = dy + n * area.dy_sample + i * area.dy_row;
      for (int j = 0; j < area.columns; ++j, px += area.x_step, pd += V) {
        vec<Real, V> d[Blocks];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b) d[b] = load<Real, V>(pd + b * area.dy_block);
#pragma GCC unroll 32
        for (int r = 0; r < Taps; ++r)
#pragma GCC unroll 32
          for (int c = 0; c < Channels; ++c)
#pragma GCC unroll 32
            for (int b = 0; b < Blocks; ++b) sum[r][b][c] += px[r * area.x_tap + c] * d[b];
      }
    }
#pragma GCC unroll 32
  for (int r = 0; r < Taps; ++r)
    if (r < area.taps)
#pragma GCC unroll 32
      for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
        for (int c = 0; c < Channels; ++c) {
          Real* const to = dw + r * area.dw_tap + b * area.dw_block + c * V;
          store<Real, V>(to, load<Real, V>(to) + sum[r][b][c]);
        }
}

/// `channels` that follow one another.
template <class Real, int V, int Taps, int Blocks>
void gather_channels(const pixel_area& area, const Real* x, const Real* dy, Real* dw,
                     int channels) {
  constexpr int registers = tile_registers<Real, V>;
  constexpr int widest = std::min(16, registers / (Taps * Blocks));
  using lengths_of = std::conditional_t<Taps == 1, channel_lengths, patch_lengths>;
  cover<widest>(lengths_of{}, channels, [&]<int Channels>(int c) {
    gather<Real, V, Taps, Blocks, Channels>(area, x + c, dy, dw + c * V);
  });
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
