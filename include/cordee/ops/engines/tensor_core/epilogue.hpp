// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Epilogues: what a convolution on tensor cores does with its accumulators while they are on the
// chip.
//
//   store_epilogue        y <- sum,  or  y <- y + sum
//   bias_relu_epilogue    y <- max(0, sum + bias[k])
//   moments_epilogue      as another one, whose results are the input of a batch norm: computes the
//                         batch's statistics as well
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/core/training_step.hpp>
#include <cordee/ops/engines/tensor_core/tile.hpp>
#include <cordee/ops/gpu/batch_norm_merge.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The place of a block's tile in the output: its rows (pixels) and its first filter.
struct output_tile {
  int index, rows, first_filter;
};

/// `store` writes `width` adjacent accumulators of a pixel, of the filters from `filter` on, at
/// `offset` of the output. An epilogue that loads numbers of the filters may have a `constants_of`
/// (filter), called once by each thread, whose result `store` gets in place of the filter. With
/// `integers_only` its kernel computes with no floating-point number.
template <Number N>
struct store_epilogue {
  using number = N;
  static constexpr int width = vec_16b<N>::size;
  N* y;  // (N, H_out, W_out, K')
  write_mode mode = write_mode::overwrite;

  CORDEE_DEVICE void store(std::size_t offset, int filter, const float* sums) const {
    result(offset, filter, sums).store(y + offset);
  }
  /// What `store` writes, not rounded.
  CORDEE_DEVICE vec_16b<N> result(std::size_t offset, int /*filter*/, const float* sums) const {
    vec_16b<N> out;
    for (int i = 0; i < width; ++i) out.value[i] = sums[i];
    if (mode == write_mode::add) {
      const vec_16b<N> old(y + offset);
      for (int i = 0; i < width; ++i) out.value[i] += old.value[i];
    }
    return out;
  }
};

template <Number N>
struct bias_relu_epilogue : store_epilogue<N> {
  const float* bias;  // (K'), padded filters

  CORDEE_DEVICE void store(std::size_t offset, int filter, const float* sums) const {
    vec_16b<N> out;
    for (int i = 0; i < out.size; ++i) {
      const float biased = sums[i] + bias[filter + i];
      out.value[i] = biased < 0 ? 0 : biased;
    }
    out.store(this->y + offset, out.size);
  }
};

/// An epilogue that also computes the moments of what it stores, a tile of pixels being a chunk
/// (ops/gpu/batch_norm_merge.hpp): a thread adds x - x[0] and its square over its pixels, x[0] of
/// the tile's first pixel, and threads are added in their order. Without counters it is `Store`.
template <class Store, class Real>
struct moments_epilogue : Store {
  using number = typename Store::number;
  using Store::width;
  struct thread_state {
    float origin[std::size_t{width}] = {}, sum[std::size_t{width}] = {},
          square[std::size_t{width}] = {};
  };
  moments_merge<Real> moments;
  std::size_t pixels;  // of the batch

  [[nodiscard]] CORDEE_DEVICE bool has_moments() const { return moments.chunks.arrived != nullptr; }
  using Store::store;

  /// With the tile's first pixel.
  template <class Accumulator>
  CORDEE_DEVICE void begin(std::size_t offset, int filter, const Accumulator* sums,
                           thread_state& state) const {
    vec_16b<number> first = this->result(offset, filter, sums);
    first.round();
    for (int i = 0; i < width; ++i) state.origin[i] = first.value[i];
  }
  template <class Accumulator>
  CORDEE_DEVICE void store(std::size_t offset, int filter, const Accumulator* sums,
                           thread_state& state) const {
    vec_16b<number> out = this->result(offset, filter, sums);
    out.round_and_store(this->y + offset);
    for (int i = 0; i < width; ++i) {
      const float d = out.value[i] - state.origin[i];
      state.sum[i] += d;
      state.square[i] += d * d;
    }
  }
  /// Collective; the accumulators in `memory` are overwritten.
  template <class Tile, class Block>
  CORDEE_DEVICE void finish(Block& b, const thread_state& state, std::byte* memory,
                            const output_tile& tile) const {
    using layout = accumulator_layout<Tile, width>;
    constexpr int down = layout::rows_per_pass;
    static_assert(2 * down < Tile::rows);
    static_assert(2 * Tile::threads * sizeof(double) <= layout::bytes);  // the merge's
    // (2 down + 1, layout::pitch): sums of each row, squares, the origins
    float* const rows = reinterpret_cast<float*>(memory);
    const int column = layout::column_of(b.thread()), row = b.thread() / layout::vectors;
    b.sync();  // all accumulators are read
    layout::store(rows, row, column, state.sum);
    layout::store(rows, down + row, column, state.square);
    if (row == 0) layout::store(rows, 2 * down, column, state.origin);
    b.sync();
    const merge_place at{
        .group = 0,
        .chunk = static_cast<std::size_t>(tile.index),
        .tile = static_cast<std::size_t>(tile.first_filter / Tile::columns),
        .first_lane = static_cast<std::size_t>(tile.first_filter),
        .channels = Tile::columns,
        .active = std::min(int{Tile::columns},
                           static_cast<int>(moments.chunks.lanes) - tile.first_filter),
        .rows = pixels};
    const int f = b.thread();
    if (f < at.active) {
      float sum = 0, square = 0;
      for (int r = 0; r < down; ++r) {
        sum += rows[layout::offset(r, f)];
        square += rows[layout::offset(down + r, f)];
      }
      moments.store_chunk(
          moments.chunks.entry(0, at.chunk, at.first_lane + static_cast<std::size_t>(f)), tile.rows,
          rows[layout::offset(2 * down, f)], sum, square);
    }
    moments.template merge<Tile::threads>(b, at, reinterpret_cast<double*>(memory));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
