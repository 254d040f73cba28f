// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Epilogues: what a convolution on tensor cores does with its accumulators while they are on the
// chip.
//
//   store_epilogue        y <- sum,  or  y <- y + sum
//   bias_relu_epilogue    y <- max(0, sum + bias[k])
//   statistics_epilogue   y <- sum, and per channel and tile of 128 pixels the sums of the rounded y
//                         and of its square
#pragma once

#include <cstddef>

#include <cordee/core/training_step.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// `store` writes `width` adjacent accumulators of a pixel, of the filters from `filter` on, at
/// `offset` of the output; it may collect in `thread_state`, with which all threads of the block
/// call `finish`.
template <Number N>
struct store_epilogue {
  static constexpr int width = vec_16b<N>::size;
  struct thread_state {};
  N* y;
  write_mode mode = write_mode::overwrite;

  CORDEE_DEVICE void store(std::size_t offset, int /*filter*/, const float* sums,
                           thread_state&) const {
    vec_16b<N> out;
    if (mode == write_mode::add) out = vec_16b<N>(y + offset, width);
    for (int i = 0; i < width; ++i) out.value[i] += sums[i];
    out.store(y + offset, width);
  }
  template <class Tile, class Block>
  CORDEE_DEVICE void finish(Block&, const thread_state&, float*, int /*tile*/,
                            int /*filter*/) const {}
};

template <Number N>
struct bias_relu_epilogue : store_epilogue<N> {
  using thread_state = typename store_epilogue<N>::thread_state;
  const float* bias;  // (K'), padded filters

  CORDEE_DEVICE void store(std::size_t offset, int filter, const float* sums, thread_state&) const {
    vec_16b<N> out;
    for (int i = 0; i < out.size; ++i) {
      const float y = sums[i] + bias[filter + i];
      out.value[i] = y < 0 ? 0 : y;
    }
    out.store(this->y + offset, out.size);
  }
};

template <Number N>
struct statistics_epilogue : store_epilogue<N> {
  using store_epilogue<N>::width;
  struct thread_state {
    float sum[width] = {}, square[width] = {};
  };
  float* sums;  // (tiles of pixels, 2, filters): sums, sums of squares
  int filters;  // padded

  CORDEE_DEVICE void store(std::size_t offset, int /*filter*/, const float* accumulators,
                           thread_state& state) const {
    vec_16b<N> out;
    for (int i = 0; i < width; ++i) {
      out.value[i] = precision::widened(precision::rounded<N>(accumulators[i]));
      state.sum[i] += out.value[i];
      state.square[i] += out.value[i] * out.value[i];
    }
    out.store(this->y + offset, width);
  }
  template <class Tile, class Block>
  CORDEE_DEVICE void finish(Block& b, const thread_state& state, float* shared, int tile,
                            int filter) const {
    constexpr int vectors = Tile::columns / width, down = Tile::threads / vectors;
    const int column = b.thread() % vectors * width, row = b.thread() / vectors;
    b.sync();  // all accumulators in `shared` are read
    for (int i = 0; i < width; ++i) {
      shared[(2 * row) * Tile::columns + column + i] = state.sum[i];
      shared[(2 * row + 1) * Tile::columns + column + i] = state.square[i];
    }
    b.sync();
    const int first = filter - column;
    for (int i = b.thread(); i < 2 * Tile::columns; i += Tile::threads) {
      const int moment = i / Tile::columns, f = i % Tile::columns;
      float sum = 0;
      for (int r = 0; r < down; ++r) sum += shared[(2 * r + moment) * Tile::columns + f];
      if (first + f < filters)
        sums[(std::size_t{2} * static_cast<std::size_t>(tile) + static_cast<std::size_t>(moment)) *
                 static_cast<std::size_t>(filters) +
             static_cast<std::size_t>(first + f)] = sum;
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
