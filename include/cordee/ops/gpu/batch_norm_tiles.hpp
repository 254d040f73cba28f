// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The division of a batch for batch normalization on a GPU: each group of samples into chunks of
// rows (pixels), each row into vectors of channels.
//
// A block's threads cover `across` vectors of a row and `down` rows, so that adjacent threads read
// adjacent memory for any V; a thread goes down its column and keeps its channels' coefficients in
// registers. The division depends on the problem alone, so the bits of the sums do.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/blocked_layout.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct batch_norm_tiles {
  static constexpr int threads = 256;
  static constexpr std::size_t max_across = 16;       // vectors of a row
  static constexpr std::size_t enough_blocks = 1024;  // per group: several for each multiprocessor
  static constexpr std::size_t fewest_steps = 8;      // rows per thread: each chunk costs a merge

  blocked_layout in;
  std::size_t samples, group, groups;  // samples per group; the last may have fewer
  int width;                           // numbers per vector
  std::size_t vectors, across, down, tiles, rows, chunks;  // rows per chunk

  constexpr batch_norm_tiles(const batch_norm_problem& at, int count, int V, int vector_width)
      : in(at.in, V),
        samples(static_cast<std::size_t>(count)),
        group(at.ghost_batch_size(count)),
        groups(at.ghost_batches(count)),
        width(vector_width),
        vectors(in.V / static_cast<std::size_t>(vector_width)) {
    const std::size_t parts = device::blocks_for(vectors, max_across);  // blocks per row
    across = device::blocks_for(vectors, parts);
    down = threads / across;
    tiles = in.blocks * parts;
    const std::size_t group_rows = rows_of(0);
    rows =
        down * std::max(fewest_steps, device::blocks_for(group_rows * tiles, down * enough_blocks));
    chunks = device::blocks_for(group_rows, rows);
  }

  [[nodiscard]] constexpr std::size_t blocks() const { return groups * chunks * tiles; }
  /// Numbers of a table (groups, chunks, lanes).
  [[nodiscard]] constexpr std::size_t table() const { return groups * chunks * in.lanes(); }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t entry(std::size_t g, std::size_t chunk,
                                                               std::size_t lane) const {
    return (g * chunks + chunk) * in.lanes() + lane;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t rows_of(std::size_t g) const {
    return (std::min((g + 1) * group, samples) - g * group) * in.pixels;
  }
  /// Rows of a chunk; 0 where the last group has fewer chunks.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t rows_of(std::size_t g,
                                                                 std::size_t chunk) const {
    const std::size_t first = chunk * rows, group_rows = rows_of(g);
    return first < group_rows ? std::min(rows, group_rows - first) : 0;
  }

  /// A thread's rows start, start + down ... < last, of the vector at `lane`; none unless `active`.
  /// `first` is the chunk's first row.
  struct thread_rows {
    std::size_t group, chunk, lane, slot, first, start, last;
    bool active;
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr thread_rows rows_of_thread(std::size_t block,
                                                                        int thread) const {
    const auto t = static_cast<std::size_t>(thread);
    const std::size_t tile = block % tiles, chunk = block / tiles % chunks;
    const std::size_t g = block / tiles / chunks, slot = t / across;
    const std::size_t parts = tiles / in.blocks, vector = tile % parts * across + t % across;
    const bool active = slot < down && vector < vectors;
    const std::size_t first = chunk * rows, last = first + rows_of(g, chunk);
    return {.group = g,
            .chunk = chunk,
            .lane = tile / parts * in.V + vector * static_cast<std::size_t>(width),
            .slot = slot,
            .first = first,
            .start = active ? first + slot : last,
            .last = last,
            .active = active};
  }
  /// Offset of the thread's vector in row `row` of its group.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t offset(const thread_rows& t,
                                                                std::size_t row) const {
    const std::size_t sample = t.group * group;
    if (in.blocks == 1) return (sample * in.pixels + row) * in.V + t.lane;  // no division
    return in.offset({sample + row / in.pixels, t.lane, row % in.pixels});
  }
};

/// Shared memory of sum_columns.
template <Number N>
inline constexpr std::size_t column_bytes =
    2 * vec_16b<N>::size * batch_norm_tiles::threads * sizeof(precision::wide<N>);

/// Leaves the sums over each column in its slot 0, by halving.
template <Number N, class Block>
CORDEE_DEVICE void sum_columns(Block& b, const batch_norm_tiles& tiling, vec_16b<N>& first,
                               vec_16b<N>& second) {
  constexpr int threads = batch_norm_tiles::threads, size = vec_16b<N>::size;
  precision::wide<N>* const shared =
      b.template shared<precision::wide<N>>(2 * size * threads) + b.thread();
  for (int k = 0; k < size; ++k) {
    shared[k * threads] = first.value[k];
    shared[(size + k) * threads] = second.value[k];
  }
  const auto across = static_cast<int>(tiling.across), down = static_cast<int>(tiling.down);
  const int slot = b.thread() / across;
  int half = 1;
  while (2 * half < down) half *= 2;
  for (b.sync(); half > 0; half /= 2) {
    if (slot < half && slot + half < down)
      for (int k = 0; k < 2 * size; ++k) shared[k * threads] += shared[k * threads + half * across];
    b.sync();
  }
  for (int k = 0; k < size; ++k) {
    first.value[k] = shared[k * threads];
    second.value[k] = shared[(size + k) * threads];
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
