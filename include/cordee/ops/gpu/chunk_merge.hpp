// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The merge of the chunks of a pass over channels on a GPU, at its end and without a launch of its
// own. Of the blocks of a set of chunks the last one merges the set, and of those the last one
// merges the group's sets; chunks and sets are added in their order, whichever block is the last.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/device/gpu_kernel.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The chunks of a pass, and the memory of their merge: two numbers of each chunk, then of each set
/// of chunks. A group has about as many sets as a set has chunks.
struct chunk_merge {
  std::size_t groups, chunks, rows, tiles, lanes;  // rows of a chunk; blocks of a chunk
  std::size_t set = 1, sets = 0;                   // chunks of a set; sets of a group
  double *firsts = nullptr, *seconds = nullptr;    // (groups, chunks + sets, lanes)
  unsigned* arrived = nullptr;                     // (groups, tiles, sets + 1): zero

  constexpr chunk_merge() : chunk_merge(0, 0, 0, 0, 0) {}
  constexpr chunk_merge(std::size_t group_count, std::size_t chunk_count, std::size_t chunk_rows,
                        std::size_t tile_count, std::size_t lane_count)
      : groups(group_count),
        chunks(chunk_count),
        rows(chunk_rows),
        tiles(tile_count),
        lanes(lane_count) {
    while (set * set < chunks) ++set;
    sets = device::blocks_for(chunks, set);
  }
  [[nodiscard]] constexpr std::size_t numbers() const {
    return 2 * groups * (chunks + sets) * lanes;
  }
  [[nodiscard]] constexpr std::size_t counters() const { return groups * tiles * (sets + 1); }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t entry(std::size_t g, std::size_t chunk,
                                                               std::size_t lane) const {
    return (g * (chunks + sets) + chunk) * lanes + lane;
  }
  /// `memory` holds numbers() doubles.
  template <GpuStream S>
  void use_memory(double* memory, S s) {
    firsts = memory;
    seconds = memory + numbers() / 2;
    arrived = s.counters(counters());
  }
};

/// The place of a block in a merge: its chunk, and its adjacent channels, one of which is `active`
/// unless it is behind the last one.
struct merge_place {
  std::size_t group, chunk, tile, first_lane;
  int channels, active;
  std::size_t rows;  // of the group
};

/// The channels of a block of `Threads` threads, of which each has several for its chunks.
template <int Threads>
struct channel_threads {
  std::size_t lane;
  int channel, channels, slot, slots;
  bool is_active;

  CORDEE_DEVICE channel_threads(const merge_place& at, int thread)
      : channel(thread % at.channels),
        channels(at.channels),
        slot(thread / at.channels),
        slots(Threads / at.channels) {
    lane = at.first_lane + static_cast<std::size_t>(channel);
    is_active = slot < slots && channel < at.active;
  }
  [[nodiscard]] CORDEE_DEVICE bool is_writer() const { return is_active && slot == 0; }

  /// The sum of f(k) over k < count, on every thread of the channel. Collective; `shared` holds a
  /// double of each thread.
  template <class Block, class F>
  CORDEE_DEVICE double sum(Block& b, double* shared, std::size_t count, const F& f) const {
    double partial = 0, total = 0;
    if (is_active)
      for (auto k = static_cast<std::size_t>(slot); k < count; k += static_cast<std::size_t>(slots))
        partial += f(k);
    shared[b.thread()] = partial;
    b.sync();
    for (int k = 0; k < slots; ++k) total += shared[k * channels + channel];
    b.sync();  // before the next sum writes
    return total;
  }
};

/// What is known of a channel's values: mean and squared deviations, or two sums.
struct channel_pair {
  double first, second;
};

/// Collective, at the end of every block of a pass, when its chunk's entries are written. Merges
/// by combine(sum, rows, firsts, seconds, total rows) of `rows(k)` rows each, and calls
/// finish(group, lane, merged) for every channel, on one thread.
template <int Threads, class Block, class Combine, class Finish>
CORDEE_DEVICE void merge_chunks(Block& b, const merge_place& at, const chunk_merge& m,
                                double* shared, const Combine& combine, const Finish& finish) {
  const channel_threads<Threads> own(at, b.thread());
  const std::size_t set = at.chunk / m.set, first = set * m.set,
                    count = std::min(m.set, m.chunks - first), g = at.group;
  const auto merge = [&](std::size_t from, std::size_t n, std::size_t rows_each,
                         std::size_t first_row, std::size_t last_row) {
    const std::size_t entry = m.entry(g, from, own.lane);
    const auto rows = [&](std::size_t k) {
      const std::size_t begin = std::min(first_row + k * rows_each, last_row);
      return static_cast<double>(std::min(rows_each, last_row - begin));
    };
    return combine([&](const auto& f) { return own.sum(b, shared, n, f); }, rows,
                   [&](std::size_t k) { return m.firsts[entry + k * m.lanes]; },
                   [&](std::size_t k) { return m.seconds[entry + k * m.lanes]; },
                   static_cast<double>(last_row - std::min(first_row, last_row)));
  };
  unsigned* const arrived = m.arrived + (g * m.tiles + at.tile) * (m.sets + 1);
  if (!b.is_last(arrived + set, static_cast<unsigned>(count))) return;
  const std::size_t set_rows = m.set * m.rows;
  const channel_pair of_set =
      merge(first, count, m.rows, first * m.rows, std::min(at.rows, (set + 1) * set_rows));
  if (own.is_writer()) {
    const std::size_t entry = m.entry(g, m.chunks + set, own.lane);
    m.firsts[entry] = of_set.first;
    m.seconds[entry] = of_set.second;
  }
  if (!b.is_last(arrived + m.sets, static_cast<unsigned>(m.sets))) return;
  const channel_pair of_group = merge(m.chunks, m.sets, set_rows, 0, at.rows);
  if (own.is_writer()) finish(g, own.lane, of_group);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
