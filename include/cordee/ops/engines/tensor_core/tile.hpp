// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Tiling of a matrix product C[m, n] = sum over k of A[m, k] B[n, k]: a thread block computes a
// tile of C of 128 rows and as many columns as the layer needs, in K steps of 64 bytes through a
// pipeline of stages in shared memory; each of its warps computes 32 of the columns.
//
// Shared memory has 32 banks of 4 bytes, and the eight lanes that access 16 bytes together, as the
// eight rows of an ldmatrix matrix, should use each bank once: hence swizzled_rows for the stages
// and accumulator_layout for C.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include <cordee/device/warp.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// `Columns` of C by `WarpsDown` warps below each other and Columns / 32 beside each other.
template <int Columns, int WarpsDown>
struct tensor_core_tile {
  static constexpr int rows = 128, columns = Columns, step_bytes = 64, stages = 4;
  static constexpr int warps_down = WarpsDown, warps_across = Columns / 32,
                       threads = 32 * warps_down * warps_across;
  /// Fragments of A and of B per warp, and mma steps per K step.
  static constexpr int fragments_down = rows / warps_down / device::fragment::rows,
                       fragments_across = 32 / device::fragment::rows,
                       mma_steps = step_bytes / device::fragment::row_bytes;
};

/// Rows of `Pitch` bytes in shared memory: chunk c of row r lies in place c ^ x(r) of the row.
/// Eight chunks of one row, or one chunk of eight rows, lie in different banks.
template <int Pitch>
struct swizzled_rows {
  static constexpr int pitch = Pitch, rows_per_line = std::max(1, 128 / Pitch),
                       patterns = std::min(8, Pitch / 16);
  CORDEE_HOST_DEVICE static constexpr int offset(int row, int chunk) {
    return row * pitch + (chunk ^ row / rows_per_line % patterns) * 16;
  }
};

/// C in shared memory between the products and an epilogue whose threads take vectors of `Width`
/// adjacent accumulators: the first four of each vector of a row are adjacent, then the next four.
template <class Tile, int Width>
struct accumulator_layout {
  static constexpr int pitch = Tile::columns + 8, part_offset = Tile::columns / 2 + 4,
                       parts = Width / 4, vectors = Tile::columns / Width,
                       rows_per_pass = Tile::threads / vectors, passes = Tile::rows / rows_per_pass;
  static_assert(parts == 1 || parts == 2);
  static constexpr std::size_t bytes = std::size_t{4} * Tile::rows * pitch;

  /// Offset of an accumulator.
  CORDEE_HOST_DEVICE static constexpr int offset(int row, int column) {
    return row * pitch + column / Width * 4 + column / 4 % parts * part_offset + column % 4;
  }
  /// From an accumulator to one `down` and `across` from it, of warp_tile::for_each_accumulator.
  CORDEE_HOST_DEVICE static constexpr int distance(int down, int across) {
    return down * pitch + across / 8 * 8 / parts + across % 8;
  }
  /// The row of a thread's vector, in the first pass; where eight threads take two rows, these are
  /// two apart.
  CORDEE_HOST_DEVICE static constexpr int row_of(int thread) {
    const int row = thread / vectors;
    return vectors == 4 ? row / 4 * 4 + row % 2 * 2 + row / 2 % 2 : row;
  }
  CORDEE_HOST_DEVICE static constexpr int column_of(int thread) { return thread % vectors * Width; }

  /// Stores, or loads, the vector at this row and column.
  template <class Accumulator>
  CORDEE_DEVICE static void store(Accumulator* sums, int row, int column,
                                  const Accumulator (&in)[std::size_t{Width}]) {
    for (int part = 0; part < parts; ++part) {
      Accumulator four[4];
      for (int i = 0; i < 4; ++i) four[i] = in[4 * part + i];
      store_unit(four, sums + offset(row, column + 4 * part));
    }
  }
  template <class Accumulator>
  CORDEE_DEVICE static void load(const Accumulator* sums, int row, int column,
                                 Accumulator (&out)[std::size_t{Width}]) {
    for (int part = 0; part < parts; ++part) {
      Accumulator four[4];
      load_unit(sums + offset(row, column + 4 * part), four);
      for (int i = 0; i < 4; ++i) out[4 * part + i] = four[i];
    }
  }
};

/// Calls f(tile) with the tile type for this many columns.
template <class F>
constexpr void with_tensor_core_tile(int columns, const F& f) {
  if (columns <= 32)
    f(tensor_core_tile<32, 4>{});
  else if (columns <= 64)
    f(tensor_core_tile<64, 2>{});
  else
    f(tensor_core_tile<128, 2>{});
}

/// One thread's part of its warp's part of the tile.
template <class Tile, class Mma>
struct warp_tile {
  static constexpr int prefetched = Tile::stages - 1;  // stages
  int lane, row, column;  // row and column: the warp's first in the tile
  device::accumulator_fragment<Mma> c[Tile::fragments_down][Tile::fragments_across] = {};

  CORDEE_DEVICE explicit warp_tile(int thread)
      : lane(thread % 32),
        row(thread / 32 / Tile::warps_across * (Tile::rows / Tile::warps_down)),
        column(thread / 32 % Tile::warps_across * 32) {}

  /// The K loop: c += A B' over `steps` K steps. The loader's `fetch` starts the copies of its next
  /// K step into a stage, `transform` applies the prologue to what this thread copied to a stage,
  /// `load_a` and `load_b` read fragment i of this warp for mma step k. Collective.
  template <class Block, class Loader>
  CORDEE_DEVICE void run_k_loop(Block& b, int steps, Loader& loader, std::byte* memory) {
    prefetch_stages(b, steps, loader, memory);
    run_main_loop(b, steps, loader, memory);
  }
  /// Starts the copies of all stages but the last one.
  template <class Block, class Loader>
  CORDEE_DEVICE static void prefetch_stages(Block& b, int steps, Loader& loader,
                                            std::byte* memory) {
    for (int step = 0; step < prefetched; ++step) {
      if (step < steps) loader.fetch(b, memory + step * Loader::stage_bytes);
      b.commit_group();
    }
  }
  /// The K loop behind prefetch_stages(). At its end no thread reads a stage, and no copy is
  /// pending.
  template <class Block, class Loader>
  CORDEE_DEVICE void run_main_loop(Block& b, int steps, Loader& loader, std::byte* memory) {
    constexpr int last = prefetched * Loader::stage_bytes;
    int current = 0, previous = last;  // offsets of stages
    for (int step = 0; step < steps; ++step) {
      b.template wait_group<prefetched - 1>();
      loader.transform(memory + current);
      b.sync();  // the stage is complete, and no thread reads the previous one
      if (step + prefetched < steps) loader.fetch(b, memory + previous);
      b.commit_group();
      multiply_stage(b, loader, memory + current);
      previous = current;
      current = current == last ? 0 : current + Loader::stage_bytes;
    }
    b.template wait_group<0>();
    b.sync();
  }

  /// The place of this thread's first accumulator in the block's tile.
  [[nodiscard]] CORDEE_DEVICE int first_row() const { return row + accumulators::row(lane, 0); }
  [[nodiscard]] CORDEE_DEVICE int first_column() const {
    return column + accumulators::column(lane, 0);
  }
  /// f(down, across, sums) for each of this thread's pairs of accumulators, the first of which is
  /// `down` rows and `across` columns from the thread's first one, the second in the next column:
  /// multiples of 8, and constants, as the calls are unrolled, column by column. A pair begins at
  /// an even column.
  template <class F>
  CORDEE_DEVICE void for_each_pair(const F& f) const {
    constexpr int fragments = Tile::fragments_down * Tile::fragments_across;
    for_each_pair(f, std::make_integer_sequence<int, 4 * fragments>{});
  }

 private:
  using accumulators = device::accumulator_fragment<Mma>;
  template <class F, int... I>
  CORDEE_DEVICE void for_each_pair(const F& f, std::integer_sequence<int, I...>) const {
    constexpr int down = 2 * Tile::fragments_down;  // accumulators of a column
    (call_with_pair<I % down, I / down>(f), ...);
  }
  /// Accumulators `Row` of this thread's columns 2 `Pair` and 2 `Pair` + 1.
  template <int Row, int Pair, class F>
  CORDEE_DEVICE void call_with_pair(const F& f) const {
    constexpr int value = Row % 2 * 2 + Pair % 2 * 4;
    const accumulators& of = c[Row / 2][Pair / 2];
    const typename Mma::accumulator sums[2] = {of.value[value], of.value[value + 1]};
    f(Row / 2 * device::fragment::rows + accumulators::row(0, value),
      Pair / 2 * device::fragment::rows + accumulators::column(0, value), sums);
  }

  template <class Block, class Loader>
  CORDEE_DEVICE void multiply_stage(Block& b, const Loader& loader, const std::byte* stage) {
    for (int k = 0; k < Tile::mma_steps; ++k) {
      device::fragment a_fragments[Tile::fragments_down], b_fragments[Tile::fragments_across];
      for (int i = 0; i < Tile::fragments_down; ++i) loader.load_a(b, a_fragments[i], stage, i, k);
      for (int j = 0; j < Tile::fragments_across; ++j)
        loader.load_b(b, b_fragments[j], stage, j, k);
      b.mma(a_fragments, b_fragments, c);
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
