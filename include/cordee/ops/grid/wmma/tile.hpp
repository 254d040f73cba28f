// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How a product of matrices C[m, n] = sum over k of A[m, k] B[n, k] is divided: a block makes a
// tile of C, of 128 by as many columns as the layer has use for, in steps of 64 bytes of k; each of
// its warps makes 32 columns of it.
//
// Rows in shared memory are apart by an odd multiple of 16 bytes, so that the eight of a matrix lie
// in all banks.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/device/warp.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// `Across` warps stand side by side, `Down` below each other.
template <int Columns, int Down>
struct wmma_tile {
  static constexpr int rows = 128, columns = Columns, step_bytes = 64, stages = 3;
  static constexpr int down = Down, across = Columns / 32, threads = 32 * down * across;
  /// Fragments that a warp multiplies, and how many times a step.
  static constexpr int fragments_down = rows / down / fragment::lines,
                       fragments_across = 32 / fragment::lines,
                       products = step_bytes / fragment::bytes;
  /// Sums in shared memory, in rows apart by this many.
  static constexpr int sums_pitch = columns + 4;
  static constexpr std::size_t sums_bytes = std::size_t{4} * rows * sums_pitch;
};

/// The tile for so many columns, as a type: f(tile) is called with it.
template <class F>
constexpr void with_wmma_tile(int columns, const F& f) {
  if (columns <= 32)
    f(wmma_tile<32, 4>{});
  else if (columns <= 64)
    f(wmma_tile<64, 2>{});
  else
    f(wmma_tile<128, 2>{});
}

/// Where a thread stands among a block's warps, and what it sums there.
template <class Tile, class Words>
struct warp_tile {
  int lane, row, column;  // of the warp's part
  fragment_sums<Words> sums[Tile::fragments_down][Tile::fragments_across] = {};

  CORDEE_DEVICE explicit warp_tile(int thread)
      : lane(thread % 32),
        row(thread / 32 / Tile::across * (Tile::rows / Tile::down)),
        column(thread / 32 % Tile::across * 32) {}

  /// Adds the products of `steps` steps. A source `fetch`es the next step's factors into a stage of
  /// shared memory, `settle`s what this thread fetched once it is there, and gives fragments of
  /// lines of A (`rows`) and B (`columns`) that begin at a line, of a step's k-th product.
  template <class Block, class Source>
  CORDEE_DEVICE void multiply(Block& b, int steps, Source& from, std::byte* memory) {
    constexpr int ahead = Tile::stages - 1;
    for (int step = 0; step < ahead; ++step) {
      if (step < steps) from.fetch(b, memory + step * Source::stage_bytes);
      b.commit();
    }
    int stage = 0, next = ahead;
    for (int step = 0; step < steps; ++step) {
      const std::byte* const here = memory + stage * Source::stage_bytes;
      b.template wait<ahead - 1>();
      from.settle(memory + stage * Source::stage_bytes);
      b.sync();  // all that was fetched is there, and nobody reads the stage before
      if (step + ahead < steps) from.fetch(b, memory + next * Source::stage_bytes);
      b.commit();
      multiply(b, from, here);
      stage = stage == ahead ? 0 : stage + 1;
      next = next == ahead ? 0 : next + 1;
    }
    b.template wait<0>();
    b.sync();
  }

  /// f(row, column, sum) for each of this thread's sums, in the block's tile.
  template <class F>
  CORDEE_DEVICE void each(const F& f) const {
    for (int i = 0; i < Tile::fragments_down; ++i)
      for (int j = 0; j < Tile::fragments_across; ++j)
        for (int s = 0; s < 8; ++s)
          f(row + i * fragment::lines + fragment_sums<Words>::row(lane, s),
            column + j * fragment::lines + fragment_sums<Words>::column(lane, s), sums[i][j].at[s]);
  }

 private:
  template <class Block, class Source>
  CORDEE_DEVICE void multiply(Block& b, const Source& from, const std::byte* stage) {
    for (int k = 0; k < Tile::products; ++k) {
      fragment of_a[Tile::fragments_down], of_b[Tile::fragments_across];
      for (int i = 0; i < Tile::fragments_down; ++i)
        from.rows(b, of_a[i], stage, row + i * fragment::lines, k);
      for (int j = 0; j < Tile::fragments_across; ++j)
        from.columns(b, of_b[j], stage, column + j * fragment::lines, k);
      b.multiply(of_a, of_b, sums);
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail
