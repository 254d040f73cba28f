// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ops/engines/direct/tiles/rows3x3.hpp by products of pairs of channels of bf16: the three taps of
// a window row of the 3x3 window of padding 1 at once, on the input in place.
//
//   y[v] += sum over s of  x[t] w[s]   for   v In + s = t Out + Out - 1
//
// A loaded pair of a pixel is added to up to three sums per block of filters, so loads are half of
// the products or fewer. Pixels outside the image are read from a pixel of zeros. The next rows are
// prefetched, a cache line of each with each pair of channels.
#pragma once

#include <cstddef>
#include <type_traits>

#include <cordee/ops/engines/direct/bf16/bfloat_tile.hpp>
#include <cordee/ops/engines/direct/tiles/rows3x3.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The memory of one output row. Pitches count numbers.
struct bfloat_rows_area {
  int blocks = 0;                           // of channels, V each
  int window_rows = 0, columns = 0;         // inside the image; columns of x
  const bfloat* x[3] = {};                  // pixel 0 of each window row, of block 0
  const bfloat* w[3] = {};                  // (3, V/2, V, 2) of channel block 0, or (3, V/4, V, 4)
  std::ptrdiff_t x_block = 0, w_block = 0;  // between blocks of channels
  std::ptrdiff_t w_filters = 0;             // between blocks of filters
  bfloat* y = nullptr;                      // (pixels, V)
  std::ptrdiff_t y_block = 0;
  std::ptrdiff_t x_row = 0, y_row = 0;  // to the rows that are prefetched
  bool add = false;                     // to y instead of overwriting it
  bool left = false, right = false;     // the tile's first or last pixel of x lies outside
};

template <int V, bool Dots, int Blocks, int In, int Out, int Pixels>
[[gnu::noinline]] void bfloat_rows3x3(const bfloat_rows_area& at, int from) {
  static_assert(In == 1 || Out == 1);
  typedef bfloat_pair pair [[gnu::may_alias, gnu::aligned(2)]];
  constexpr int under = pixels_under(Pixels, In, Out), before = Out == 1 ? 1 : 0;
  constexpr std::ptrdiff_t line = 64 / sizeof(bfloat);  // of the cache
  tile_sums<float, V, Blocks, Pixels> sum{};
  for (int block = 0; block < at.blocks; ++block)
    for (int r = 0; r < at.window_rows; ++r) {
      const bfloat* const x = at.x[r] + block * at.x_block + std::ptrdiff_t{from} * V;
      const bfloat* const head = at.left ? zero_pixel<bfloat, V> : x - V;
      const bfloat* const tail = at.right ? zero_pixel<bfloat, V> : x + (under - 1 - before) * V;
      const bfloat* w = at.w[r] + block * at.w_block;
      const bfloat* const next_x = x + In * at.x_row;
      bfloat* const next_y = at.y + at.y_row + (block % Blocks) * at.y_block;
      for (int c = 0; c < V; c += 2, w += 2 * V) {
        __builtin_prefetch(next_x + c / 2 * line);
        __builtin_prefetch(next_y + c / 2 * line, 1);
        bfloat_pairs<V> weight[std::size_t{Blocks}][3];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
          for (int s = 0; s < 3; ++s)
            weight[b][s] = load<bfloat_pair, V>(
                reinterpret_cast<const bfloat_pair*>(w + b * at.w_filters + s * V * V));
#pragma GCC unroll 64
        for (int t = 0; t < under; ++t) {
          const bfloat* const pixel = t == under - 1         ? tail
                                      : t == 0 && before > 0 ? head
                                                             : x + (t - before) * V;
          const bfloat_pair channels = *reinterpret_cast<const pair*>(pixel + c);
#pragma GCC unroll 32
          for (int s = 0; s < 3; ++s) {
            const int v = t * Out + Out - 1 - s;
            if (v >= 0 && v % In == 0 && v / In < Pixels)
#pragma GCC unroll 32
              for (int b = 0; b < Blocks; ++b)
                sum[b][v / In] = bfloat_dot<V, Dots>::add(sum[b][v / In], channels, weight[b][s]);
          }
        }
      }
    }
  store_bfloat_tile<V, Dots, Blocks, Pixels>(sum, at.y, at.y_block, at.add);
}

/// As above, with four channels in a group of the packed weights (bfloat_matrix_tile.hpp).
template <int V, bool Dots, int Blocks, int In, int Out, int Pixels>
[[gnu::noinline]] void bfloat_matrix_rows3x3(const bfloat_rows_area& at, int from);

/// All pixels of the row. Backward through a stride a tile begins at an even pixel.
template <int V, bool Dots, int Blocks, int In, int Out, int Group = bfloat_group<V, Dots>>
void bfloat_rows3x3_run(bfloat_rows_area at, int pixels) {
  constexpr bool many = many_registers<float, V>;
  constexpr int widest = many ? (30 - 3 * Blocks) / Blocks : 4;
  using plenty = std::conditional_t<
      Out == 2, std::conditional_t<Blocks == 1, lengths<16, 14, 2, 1>, lengths<8, 6, 2, 1>>,
      std::conditional_t<Blocks == 1, lengths<16, 14, 8, 4, 1>, lengths<8, 7, 4, 1>>>;
  bfloat* const y = at.y;
  for_tiles<widest>(std::conditional_t<many, plenty, lengths<4, 2, 1>>{}, pixels,
                    [&]<int Pixels>(int done, int tiles) {
                      constexpr int under = pixels_under(Pixels, In, Out) - (Out == 1 ? 1 : 0);
                      for (; tiles > 0; --tiles, done += Pixels) {
                        const int from = done * In / Out;
                        at.y = y + std::ptrdiff_t{done} * V;
                        at.left = done == 0;
                        at.right = from + under > at.columns;
                        if constexpr (Group == 4)
                          bfloat_matrix_rows3x3<V, Dots, Blocks, In, Out, Pixels>(at, from);
                        else
                          bfloat_rows3x3<V, Dots, Blocks, In, Out, Pixels>(at, from);
                      }
                    });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
