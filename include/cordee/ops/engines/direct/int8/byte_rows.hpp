// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Rows of y cut into the tiles of byte_tile.hpp.
#pragma once

#include <concepts>
#include <cstdint>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/engines/direct/int8/byte_dense_tile.hpp>
#include <cordee/ops/engines/direct/int8/byte_tile.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Pixels of the longest tile of so many blocks of filters.
template <int V, int Blocks>
inline constexpr int longest_byte_tile = std::min(16, tile_registers<std::int32_t, V> / Blocks);

/// The longest tiles that so many rows of y are cut into, for two blocks of filters or one.
template <int V>
int byte_tiles_of_rows(bool two_blocks, int rows, int width) {
  const int longest = two_blocks ? longest_byte_tile<V, 2> : longest_byte_tile<V, 1>;
  const bool row_pairs = longest == 14 && width == 7;
  return row_pairs ? (rows + 1) / 2 : rows * ((width + longest - 1) / longest);
}

/// `rows` rows of y, of `width` pixels; `at` is the first one's.
template <int V, bool Dots, int Blocks, class Out, class Epilogue = store_byte_sums>
void byte_rows(byte_tile<Out>& at, int rows, int width, int stride, const Epilogue& epilogue = {}) {
  constexpr int longest = longest_byte_tile<V, Blocks>;
  const byte_tile<Out> row = at;
  int first = 0;
  if constexpr (longest == 14)
    for (at.x_half = stride * at.x_row; width == 7 && first + 2 <= rows; first += 2) {
      at.x = row.x + first * stride * row.x_row;
      at.y = row.y + first * row.y_row;
      byte_sums<V, Dots, Blocks, 14, false, Out>(at, epilogue);
    }
  at.x_half = 7 * row.x_step;
  const auto cut = [&]<int... L>(lengths<L...> all) {
    for_tiles<longest>(all, width, [&]<int Pixels>(int done, int tiles) {
      constexpr bool by_rows = Blocks * Pixels == 16;  // fewer loads
      auto kernel = by_rows && at.rows3x3
                        ? byte_sums<V, Dots, Blocks, Pixels, by_rows, Out, Epilogue>
                        : byte_sums<V, Dots, Blocks, Pixels, false, Out, Epilogue>;
      if constexpr (!std::same_as<Epilogue, store_byte_sums>)
        if (at.dense) kernel = byte_dense_sums<V, Dots, Blocks, Pixels, Out, Epilogue>;
      for (int i = first; i < rows; ++i) {
        at.x = row.x + i * stride * row.x_row + done * row.x_step;
        at.y = row.y + i * row.y_row + done * V;
        for (int t = 0; t < tiles; ++t, at.x += Pixels * row.x_step, at.y += Pixels * V)
          kernel(at, epilogue);
      }
    });
  };
  if (longest >= 14 && width % 7 == 0)
    cut(lengths<14, 7>{});  // 49 as 7 + 3 14
  else
    cut(lengths<16, 14, 8, 7, 4, 1>{});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
