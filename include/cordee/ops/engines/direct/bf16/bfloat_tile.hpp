// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of engine `direct` for bf16: pixels of an output row x blocks of V filters.
//
// A register holds the sums of V filters at one pixel; one instruction adds two channels to each
// (ops/engines/direct/tiles/bfloat_dot.hpp), and each sum is rounded to bf16 once, when it is
// stored. The last two numbers of a window row are a pair also if the row is odd: the first of them
// was in the pair before, too, and has a zero weight here.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/engines/direct/tiles/bfloat_dot.hpp>
#include <cordee/ops/engines/direct/tiles/matrix_product.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The memory of a tile. Pitches count numbers.
struct bfloat_area {
  int blocks = 0, rows = 0;                           // of channels; of the window
  std::ptrdiff_t row_numbers = 0;                     // of x in a window row, at least 2
  const bfloat* x = nullptr;                          // the window's first pixel
  std::ptrdiff_t x_step = 0, x_row = 0, x_block = 0;  // between pixels of y; rows, blocks of x
  const bfloat* w = nullptr;                          // (blocks, rows, pairs, V, 2), or of four
  std::ptrdiff_t w_block = 0;                         // from one block of filters to the next
  bfloat* y = nullptr;                                // (pixels, V)
  std::ptrdiff_t y_block = 0;
  bool add = false;  // to y instead of overwriting it
};

/// Rounds the sums of adjacent pixels, or of what y holds and them.
template <int V, bool Dots, int Blocks, int Pixels>
[[gnu::always_inline]] inline void store_bfloat_tile(const tile_sums<float, V, Blocks, Pixels>& sum,
                                                     bfloat* y, std::ptrdiff_t y_block, bool add) {
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t) {
      bfloat* const pixel = y + b * y_block + t * V;
      store_bfloat_sums<V, Dots>(pixel, add ? load<bfloat, V>(pixel) + sum[b][t] : sum[b][t]);
    }
}

/// Pixels of y are Step numbers of x apart, or where it is 0, x_step.
template <int V, bool Dots, int Blocks, int Step, int Pixels>
[[gnu::noinline]] void bfloat_tile(const bfloat_area& at) {
  const std::ptrdiff_t step = Step != 0 ? Step : at.x_step, numbers = at.row_numbers;
  typedef bfloat_pair pair [[gnu::may_alias, gnu::aligned(2)]];
  tile_sums<float, V, Blocks, Pixels> sum{};
  const bfloat* w = at.w;
  for (int block = 0; block < at.blocks; ++block)
    for (int r = 0; r < at.rows; ++r) {
      const bfloat* const row = at.x + block * at.x_block + r * at.x_row;
      for (std::ptrdiff_t i = 0; i < numbers; i += 2, w += 2 * V) {
        const bfloat* const x = row + std::min(i, numbers - 2);
        bfloat_pairs<V> weight[std::size_t{Blocks}];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
          weight[b] =
              load<bfloat_pair, V>(reinterpret_cast<const bfloat_pair*>(w + b * at.w_block));
#pragma GCC unroll 32
        for (int t = 0; t < Pixels; ++t) {
          const bfloat_pair pixel = *reinterpret_cast<const pair*>(x + t * step);
#pragma GCC unroll 32
          for (int b = 0; b < Blocks; ++b)
            sum[b][t] = bfloat_dot<V, Dots>::add(sum[b][t], pixel, weight[b]);
        }
      }
    }
  store_bfloat_tile<V, Dots, Blocks, Pixels>(sum, at.y, at.y_block, at.add);
}

/// As bfloat_tile, with four channels in a group of the packed weights (bfloat_matrix_tile.hpp).
template <int V, bool Dots, int Blocks, int Step, int Pixels>
[[gnu::noinline]] void bfloat_matrix_tile(const bfloat_area& at);

/// `rows` rows of `pixels` adjacent pixels, x_down numbers of x and y_down of y apart. A copy of
/// the area for each row would cost a third of the time of an image's short rows: its wide loads
/// wait for the narrow stores before them.
template <int V, bool Dots, int Blocks, int Step = 0, int Group = bfloat_group<V, Dots>>
void bfloat_rows(bfloat_area at, int rows, int pixels, std::ptrdiff_t x_down,
                 std::ptrdiff_t y_down) {
  const bfloat* x = at.x;
  bfloat* y = at.y;
  for (int i = 0; i < rows; ++i, x += x_down, y += y_down)
    for_tiles<tile_registers<float, V> / Blocks>(
        tile_lengths<float, V, Blocks>{}, pixels, [&]<int Pixels>(int done, int tiles) {
          at.x = x + done * at.x_step;
          at.y = y + std::ptrdiff_t{V} * done;
          for (; tiles > 0; --tiles, at.x += Pixels * at.x_step, at.y += Pixels * V)
            if constexpr (Group == 4)
              bfloat_matrix_tile<V, Dots, Blocks, Step, Pixels>(at);
            else
              bfloat_tile<V, Dots, Blocks, Step, Pixels>(at);
        });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
