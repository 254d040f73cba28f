// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The division of a batch for batch normalization on a GPU: each group of samples into chunks of
// rows (pixels), each row into vectors of channels.
//
// A block's threads cover `across` vectors of a row and `down` rows, so that adjacent threads read
// adjacent memory for any V; a thread goes down its column, from address to address by additions,
// and keeps its channels' coefficients in registers. The division depends on the problem alone,
// so the bits of the sums do. (Behind a convolution of `tensor_core`, its tiles are the chunks.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/blocked_layout.hpp>
#include <cordee/ops/gpu/chunk_merge.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct batch_norm_tiles {
  static constexpr int threads = 256;
  static constexpr std::size_t max_across = 16;      // vectors of a row
  static constexpr std::size_t enough_blocks = 528;  // per group: those that an H100 or H200 holds
  static constexpr std::size_t fewest_steps = 8;     // rows per thread: each chunk costs a merge

  blocked_layout in;
  std::size_t samples, group, groups;  // samples per group; the last may have fewer
  int width;                           // numbers per vector
  std::size_t vectors, across, down, parts, tiles, rows, chunks;  // blocks and rows per chunk
  // From a row to the one `down` rows below: numbers and pixels, and what the end of an image adds.
  std::size_t step = 0, image_end = 0;
  unsigned pixels, step_pixels = 0;

  constexpr batch_norm_tiles(const batch_norm_problem& at, int count, int V, int vector_width)
      : in(at.in, V),
        samples(static_cast<std::size_t>(count)),
        group(at.ghost_batch_size(count)),
        groups(at.ghost_batches(count)),
        width(vector_width),
        vectors(in.V / static_cast<std::size_t>(vector_width)),
        pixels(static_cast<unsigned>(in.pixels)) {
    parts = device::blocks_for(vectors, max_across);  // blocks per row
    across = device::blocks_for(vectors, parts);
    down = threads / across;
    tiles = in.blocks * parts;
    const std::size_t group_rows = rows_of(0);
    expects(group_rows <= UINT32_MAX, "batch_norm: a batch of fewer than 2^32 pixels is needed");
    rows =
        down * std::max(fewest_steps, device::blocks_for(group_rows * tiles, down * enough_blocks));
    chunks = device::blocks_for(group_rows, rows);
    if (in.pixels == 0) return;
    step_pixels = static_cast<unsigned>(down % in.pixels);
    step = (down / in.pixels * in.blocks * in.pixels + step_pixels) * in.V;
    image_end = (in.blocks - 1) * in.pixels * in.V;
  }

  [[nodiscard]] constexpr std::size_t blocks() const { return groups * chunks * tiles; }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t rows_of(std::size_t g) const {
    return (std::min((g + 1) * group, samples) - g * group) * in.pixels;
  }
  /// Rows of a chunk; 0 where the last group has fewer chunks.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t rows_of(std::size_t g,
                                                                 std::size_t chunk) const {
    const std::size_t first = chunk * rows, group_rows = rows_of(g);
    return first < group_rows ? std::min(rows, group_rows - first) : 0;
  }

  /// Where block `index` lies, and the first channel of its vector `column`. A launch has fewer
  /// than 2^32 blocks, so that divisions are of 32 bits.
  struct tile_position {
    unsigned group, chunk, tile;
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr tile_position position_of(std::size_t index) const {
    const auto block = static_cast<unsigned>(index), row = static_cast<unsigned>(tiles),
               column = static_cast<unsigned>(chunks), at = block / row;
    return {at / column, at % column, block % row};
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t vector_of(const tile_position& at,
                                                                   std::size_t column) const {
    return at.tile % static_cast<unsigned>(parts) * across + column;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t lane_of(const tile_position& at,
                                                                 std::size_t vector) const {
    return at.tile / static_cast<unsigned>(parts) * in.V + vector * static_cast<std::size_t>(width);
  }

  /// The chunks, and the place of a block in their merge.
  [[nodiscard]] constexpr chunk_merge merge() const {
    return {groups, chunks, rows, tiles, in.lanes()};
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr merge_place merge_place_of(
      const tile_position& at) const {
    const std::size_t vector = vector_of(at, 0);
    const int channels = static_cast<int>(across) * width,
              left = static_cast<int>(vectors - vector) * width;
    return {at.group,         at.chunk,
            at.tile,          lane_of(at, vector),
            channels,         std::min(channels, left),
            rows_of(at.group)};
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
    const tile_position at = position_of(block);
    const std::size_t slot = t / across, vector = vector_of(at, t % across);
    const bool active = slot < down && vector < vectors;
    const std::size_t first = at.chunk * rows, last = first + rows_of(at.group, at.chunk);
    return {.group = at.group,
            .chunk = at.chunk,
            .lane = lane_of(at, vector),
            .slot = slot,
            .first = first,
            .start = active ? first + slot : last,
            .last = last,
            .active = active};
  }
  /// Offset of the vector at `lane` in row `row` of group `g`, which has fewer than 2^32 rows.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t offset(std::size_t g, std::size_t row,
                                                                std::size_t lane) const {
    const auto at = static_cast<unsigned>(row);
    return in.offset({g * group + at / pixels, lane, at % pixels});
  }

  /// The address of a thread's row, moved down without a division. A chunk has fewer than 2^32
  /// rows, as has an image.
  struct row_cursor {
    std::size_t offset;
    unsigned pixel, left;  // rows left, this one included
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr row_cursor first_row(const thread_rows& t) const {
    const auto span = static_cast<unsigned>(t.last - t.start), stride = static_cast<unsigned>(down);
    return {offset(t.group, t.start, t.lane), static_cast<unsigned>(t.start) % pixels,
            (span + stride - 1) / stride};
  }
  CORDEE_HOST_DEVICE constexpr void advance(row_cursor& at) const {
    --at.left;
    at.offset += step;
    at.pixel += step_pixels;
    if (at.pixel < pixels) return;
    at.pixel -= pixels;
    at.offset += image_end;
  }
  /// Calls use(offset, load(offset)) for the rows from `at` on, in their order. `Depth` rows are
  /// loaded before the first of them is used.
  template <int Depth, class Load, class Use>
  CORDEE_DEVICE void for_each_row(row_cursor at, const Load& load, const Use& use) const {
    while (Depth > 1 && at.left >= Depth) {
      std::size_t offsets[std::size_t{Depth}];
      decltype(load(at.offset)) loaded[std::size_t{Depth}];
      for (int i = 0; i < Depth; ++i, advance(at)) loaded[i] = load(offsets[i] = at.offset);
      for (int i = 0; i < Depth; ++i) use(offsets[i], loaded[i]);
    }
    for (; at.left > 0; advance(at)) use(at.offset, load(at.offset));
  }
};

/// The sums over the columns of a block: two of each channel, in shared memory.
template <Number N, int Size>
struct column_sums {
  static constexpr int threads = batch_norm_tiles::threads;
  // Four numbers behind each row, so that the channels of adjacent vectors lie in other banks.
  static constexpr int pitch = threads + 4;
  static constexpr std::size_t bytes =
      std::max(2 * Size * pitch * sizeof(precision::wide<N>), 2 * threads * sizeof(double));
  static_assert(batch_norm_tiles::max_across * Size <= threads);

  precision::wide<N>* shared;  // (2 Size, pitch), by thread; in slot 0: the sums

  /// By halving. Collective.
  template <class Block>
  CORDEE_DEVICE column_sums(Block& b, const batch_norm_tiles& tiling, const vec_16b<N, Size>& first,
                            const vec_16b<N, Size>& second)
      : shared(b.template shared<precision::wide<N>>(2 * Size * pitch)) {
    precision::wide<N>* const own = shared + b.thread();
    for (int k = 0; k < Size; ++k) {
      own[k * pitch] = first.value[k];
      own[(Size + k) * pitch] = second.value[k];
    }
    const auto across = static_cast<int>(tiling.across), down = static_cast<int>(tiling.down);
    const int slot = b.thread() / across;
    int half = 1;
    while (2 * half < down) half *= 2;
    for (b.sync(); half > 0; half /= 2) {
      if (slot < half && slot + half < down)
        for (int k = 0; k < 2 * Size; ++k) own[k * pitch] += own[k * pitch + half * across];
      b.sync();
    }
  }

  /// The same memory, when the sums are read: two doubles of each thread.
  [[nodiscard]] CORDEE_DEVICE double* doubles() const { return reinterpret_cast<double*>(shared); }

  /// Calls store(group, chunk, lane, first, second) for every channel of the block `at`, adjacent
  /// threads for adjacent channels.
  template <class Block, class Store>
  CORDEE_DEVICE void for_each_channel(Block& b, const batch_norm_tiles& tiling,
                                      const batch_norm_tiles::tile_position& at,
                                      const Store& store) const {
    const int column = b.thread() / Size, k = b.thread() % Size;
    const std::size_t vector = tiling.vector_of(at, static_cast<std::size_t>(column));
    if (column >= static_cast<int>(tiling.across) || vector >= tiling.vectors) return;
    store(at.group, at.chunk, tiling.lane_of(at, vector) + static_cast<std::size_t>(k),
          shared[k * pitch + column], shared[(Size + k) * pitch + column]);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
