// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a convolution on tensor cores does with its sums, while they are on the chip.
//
//   stored            y <- sum,  or  y <- y + sum
//   bias_relu         y <- max(0, sum + bias[k])
//   stored_with_sums  y <- sum, and of each 128 pixels and channel the sums of y and y^2, as
//   rounded
#pragma once

#include <cstddef>

#include <cordee/core/protocol.hpp>
#include <cordee/ops/grid/pack.hpp>

namespace cordee::inline CORDEE_ABI {

/// `put` takes `width` neighbouring sums of a pixel, of the filters from `filter` on; what it has
/// to remember of them is `kept`, for which `finish` is called by all threads of a block.
template <Number N>
struct stored {
  static constexpr int width = detail::pack<N>::size;
  struct kept {};
  N* y;
  into how = into::overwrite;

  CORDEE_DEVICE void put(std::size_t at, int /*filter*/, const float* sums, kept&) const {
    detail::pack<N> out;
    if (how == into::add) out = detail::pack<N>(y + at, width);
    for (int i = 0; i < width; ++i) out.at[i] += sums[i];
    out.store(y + at, width);
  }
  template <class Tile, class Block>
  CORDEE_DEVICE void finish(Block&, const kept&, float*, int /*tile*/, int /*filter*/) const {}
};

template <Number N>
struct bias_relu : stored<N> {
  using kept = typename stored<N>::kept;
  const float* bias;  // of every filter that lies in memory

  CORDEE_DEVICE void put(std::size_t at, int filter, const float* sums, kept&) const {
    detail::pack<N> out;
    for (int i = 0; i < out.size; ++i) {
      const float y = sums[i] + bias[filter + i];
      out.at[i] = y < 0 ? 0 : y;
    }
    out.store(this->y + at, out.size);
  }
};

/// Of tile i, channel f: sums[(2 i) filters + f], and of the squares sums[(2 i + 1) filters + f].
template <Number N>
struct stored_with_sums : stored<N> {
  using stored<N>::width;
  struct kept {
    float sum[width] = {}, square[width] = {};
  };
  float* sums;
  int filters;  // as they lie in memory

  CORDEE_DEVICE void put(std::size_t at, int /*filter*/, const float* of, kept& kept) const {
    detail::pack<N> out;
    for (int i = 0; i < width; ++i) {
      out.at[i] = widened(rounded<N>(of[i]));
      kept.sum[i] += out.at[i];
      kept.square[i] += out.at[i] * out.at[i];
    }
    out.store(this->y + at, width);
  }
  template <class Tile, class Block>
  CORDEE_DEVICE void finish(Block& b, const kept& kept, float* room, int tile, int filter) const {
    constexpr int packs = Tile::columns / width, down = Tile::threads / packs;
    const int column = b.thread() % packs * width, row = b.thread() / packs;
    b.sync();  // the sums were read
    for (int i = 0; i < width; ++i) {
      room[(2 * row) * Tile::columns + column + i] = kept.sum[i];
      room[(2 * row + 1) * Tile::columns + column + i] = kept.square[i];
    }
    b.sync();
    const int first = filter - column;
    for (int i = b.thread(); i < 2 * Tile::columns; i += Tile::threads) {
      const int which = i / Tile::columns, f = i % Tile::columns;
      float sum = 0;
      for (int r = 0; r < down; ++r) sum += room[(2 * r + which) * Tile::columns + f];
      if (first + f < filters)
        sums[(std::size_t{2} * static_cast<std::size_t>(tile) + static_cast<std::size_t>(which)) *
                 static_cast<std::size_t>(filters) +
             static_cast<std::size_t>(first + f)] = sum;
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI
