// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Tiling of a matrix product C[m, n] = sum over k of A[m, k] B[n, k]: a thread block computes a
// tile of C of 128 rows and as many columns as the layer needs, in K steps of 64 bytes through a
// pipeline of stages in shared memory; each of its warps computes 32 of the columns.
//
// Rows in shared memory are an odd multiple of 16 bytes apart, so that the eight rows of an
// ldmatrix matrix lie in different banks.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/device/warp.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// `Columns` of C by `WarpsDown` warps below each other and Columns / 32 beside each other.
template <int Columns, int WarpsDown>
struct tensor_core_tile {
  static constexpr int rows = 128, columns = Columns, step_bytes = 64, stages = 3;
  static constexpr int warps_down = WarpsDown, warps_across = Columns / 32,
                       threads = 32 * warps_down * warps_across;
  /// Fragments of A and of B per warp, and mma steps per K step.
  static constexpr int fragments_down = rows / warps_down / device::fragment::rows,
                       fragments_across = 32 / device::fragment::rows,
                       mma_steps = step_bytes / device::fragment::row_bytes;
  /// C in shared memory for the epilogue, rows this many accumulators apart.
  static constexpr int accumulator_pitch = columns + 4;
  static constexpr std::size_t accumulator_bytes = std::size_t{4} * rows * accumulator_pitch;
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
  int lane, row, column;  // row and column: the warp's first in the tile
  device::accumulator_fragment<Mma> c[Tile::fragments_down][Tile::fragments_across] = {};

  CORDEE_DEVICE explicit warp_tile(int thread)
      : lane(thread % 32),
        row(thread / 32 / Tile::warps_across * (Tile::rows / Tile::warps_down)),
        column(thread / 32 % Tile::warps_across * 32) {}

  /// The K loop: c += A B' over `steps` K steps. The loader's `fetch` starts the copies of its next
  /// K step into a stage, `transform` applies the prologue to what this thread copied to a stage,
  /// `load_a` and `load_b` read the fragment of an mma step from a row or column on. Collective.
  template <class Block, class Loader>
  CORDEE_DEVICE void run_k_loop(Block& b, int steps, Loader& loader, std::byte* memory) {
    constexpr int prefetched = Tile::stages - 1;
    for (int step = 0; step < prefetched; ++step) {
      if (step < steps) loader.fetch(b, memory + step * Loader::stage_bytes);
      b.commit_group();
    }
    int stage = 0, next = prefetched;
    for (int step = 0; step < steps; ++step) {
      const std::byte* const current = memory + stage * Loader::stage_bytes;
      b.template wait_group<prefetched - 1>();
      loader.transform(memory + stage * Loader::stage_bytes);
      b.sync();  // the stage is complete, and no thread reads the previous one
      if (step + prefetched < steps) loader.fetch(b, memory + next * Loader::stage_bytes);
      b.commit_group();
      multiply_stage(b, loader, current);
      stage = stage == prefetched ? 0 : stage + 1;
      next = next == prefetched ? 0 : next + 1;
    }
    b.template wait_group<0>();
    b.sync();
  }

  /// f(row, column, sum) for each of this thread's accumulators, by its place in the block's tile.
  template <class F>
  CORDEE_DEVICE void for_each_accumulator(const F& f) const {
    using accumulators = device::accumulator_fragment<Mma>;
    for (int i = 0; i < Tile::fragments_down; ++i)
      for (int j = 0; j < Tile::fragments_across; ++j)
        for (int s = 0; s < 8; ++s)
          f(row + i * device::fragment::rows + accumulators::row(lane, s),
            column + j * device::fragment::rows + accumulators::column(lane, s), c[i][j].value[s]);
  }

 private:
  template <class Block, class Loader>
  CORDEE_DEVICE void multiply_stage(Block& b, const Loader& loader, const std::byte* stage) {
    for (int k = 0; k < Tile::mma_steps; ++k) {
      device::fragment a_fragments[Tile::fragments_down], b_fragments[Tile::fragments_across];
      for (int i = 0; i < Tile::fragments_down; ++i)
        loader.load_a(b, a_fragments[i], stage, row + i * device::fragment::rows, k);
      for (int j = 0; j < Tile::fragments_across; ++j)
        loader.load_b(b, b_fragments[j], stage, column + j * device::fragment::rows, k);
      b.mma(a_fragments, b_fragments, c);
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
