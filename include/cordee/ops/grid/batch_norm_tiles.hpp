// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How batch normalisation on a GPU divides a batch: every group into chunks of rows (pixels of its
// samples), every row into packs of channels.
//
// A block's threads stand `across` packs of a row and `down` rows, so that neighbours read
// neighbours at any V; a thread goes down its column and keeps its channels' coefficients in
// registers. The division depends on the problem alone, so the sums' bits do.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/device/grid.hpp>
#include <cordee/ops/batch_norm.hpp>
#include <cordee/ops/grid/blocked.hpp>
#include <cordee/ops/grid/pack.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

struct batch_norm_tiles {
  static constexpr int threads = 256;
  static constexpr std::size_t widest = 16;           // packs of a row
  static constexpr std::size_t enough_blocks = 1024;  // in a group: some for each multiprocessor
  static constexpr std::size_t fewest_steps = 8;      // down a column: chunks are merged later

  blocked in;
  std::size_t samples, group, groups;  // `group` samples each, of the last maybe fewer
  int width;                           // numbers of a pack
  std::size_t packs, across, down, tiles, rows, chunks;  // `rows` in a chunk

  constexpr batch_norm_tiles(const batch_norm_problem& at, int count, int V, int pack)
      : in(at.at, V),
        samples(static_cast<std::size_t>(count)),
        group(at.group_size(count)),
        groups(at.groups(count)),
        width(pack),
        packs(in.V / static_cast<std::size_t>(pack)) {
    const std::size_t pieces = blocks_for(packs, widest);  // of a row
    across = blocks_for(packs, pieces);
    down = threads / across;
    tiles = in.blocks * pieces;
    const std::size_t all = rows_of(0);
    rows = down * std::max(fewest_steps, blocks_for(all * tiles, down * enough_blocks));
    chunks = blocks_for(all, rows);
  }

  [[nodiscard]] constexpr std::size_t blocks() const { return groups * chunks * tiles; }
  /// Numbers of a table with one for every chunk and channel.
  [[nodiscard]] constexpr std::size_t table() const { return groups * chunks * in.lanes(); }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t entry(std::size_t g, std::size_t chunk,
                                                               std::size_t lane) const {
    return (g * chunks + chunk) * in.lanes() + lane;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t rows_of(std::size_t g) const {
    return (std::min((g + 1) * group, samples) - g * group) * in.pixels;
  }
  /// None where the last group has fewer chunks.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t rows_of(std::size_t g,
                                                                 std::size_t chunk) const {
    const std::size_t first = chunk * rows, all = rows_of(g);
    return first < all ? std::min(rows, all - first) : 0;
  }

  /// What one thread does: rows start, start + down ... below last of the pack at `lane`; none
  /// where it is one too many. `first` is the first row of the chunk.
  struct share {
    std::size_t group, chunk, lane, slot, first, start, last;
    bool works;
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr share share_of(std::size_t block, int thread) const {
    const auto t = static_cast<std::size_t>(thread);
    const std::size_t tile = block % tiles, chunk = block / tiles % chunks;
    const std::size_t g = block / tiles / chunks, slot = t / across;
    const std::size_t pieces = tiles / in.blocks, number = tile % pieces * across + t % across;
    const bool works = slot < down && number < packs;
    const std::size_t first = chunk * rows, last = first + rows_of(g, chunk);
    return {.group = g,
            .chunk = chunk,
            .lane = tile / pieces * in.V + number * static_cast<std::size_t>(width),
            .slot = slot,
            .first = first,
            .start = works ? first + slot : last,
            .last = last,
            .works = works};
  }
  /// Where the pack lies in row `row` of the thread's group.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t offset(const share& my,
                                                                std::size_t row) const {
    const std::size_t sample = my.group * group;
    if (in.blocks == 1) return (sample * in.pixels + row) * in.V + my.lane;  // without division
    return in.index({sample + row / in.pixels, my.lane, row % in.pixels});
  }
};

/// Bytes that add_down shares.
template <Number N>
inline constexpr std::size_t column_bytes =
    2 * pack<N>::size * batch_norm_tiles::threads * sizeof(wide<N>);

/// Slot 0 of every column receives the sums over the column, by halves.
template <Number N, class Block>
CORDEE_DEVICE void add_down(Block& b, const batch_norm_tiles& to, pack<N>& one, pack<N>& other) {
  constexpr int threads = batch_norm_tiles::threads, size = pack<N>::size;
  wide<N>* const room = b.template shared<wide<N>>(2 * size * threads) + b.thread();
  for (int k = 0; k < size; ++k) {
    room[k * threads] = one.at[k];
    room[(size + k) * threads] = other.at[k];
  }
  const auto across = static_cast<int>(to.across), down = static_cast<int>(to.down);
  const int slot = b.thread() / across;
  int half = 1;
  while (2 * half < down) half *= 2;
  for (b.sync(); half > 0; half /= 2) {
    if (slot < half && slot + half < down)
      for (int k = 0; k < 2 * size; ++k) room[k * threads] += room[k * threads + half * across];
    b.sync();
  }
  for (int k = 0; k < size; ++k) {
    one.at[k] = room[k * threads];
    other.at[k] = room[(size + k) * threads];
  }
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
