// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Merges the chunks of a pass over channels on a GPU, at its end and without a separate launch. The
// last block of a set of chunks merges the set, and the last of these blocks merges the group's
// sets; chunks and sets are added in their order, whichever block is the last.
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
                        std::size_t tiles_of_all, std::size_t lane_count)
      : groups(group_count),
        chunks(chunk_count),
        rows(chunk_rows),
        tiles(tiles_of_all),
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

/// What is known of a channel's values: mean and squared deviations, or two sums.
struct channel_pair {
  double first, second;
  CORDEE_DEVICE channel_pair& operator+=(const channel_pair& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
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

  /// The sums of f(k, load(k)) over k < count, on every thread of the channel. A thread has `depth`
  /// loads in flight. Collective; `shared` holds two doubles of each thread.
  template <class Block, class Load, class F>
  CORDEE_DEVICE channel_pair sum(Block& b, double* shared, std::size_t count, const Load& load,
                                 const F& f) const {
    constexpr std::size_t depth = 4;
    const auto stride = static_cast<std::size_t>(slots);
    channel_pair partial{0, 0}, total{0, 0};
    if (is_active)
      for (auto k = static_cast<std::size_t>(slot); k < count; k += depth * stride) {
        channel_pair loaded[depth] = {};
        for (std::size_t i = 0; i < depth; ++i)
          if (k + i * stride < count) loaded[i] = load(k + i * stride);
        for (std::size_t i = 0; i < depth; ++i)
          if (k + i * stride < count) partial += f(k + i * stride, loaded[i]);
      }
    shared[b.thread()] = partial.first;
    shared[Threads + b.thread()] = partial.second;
    b.sync();
    for (int at = channel; at < slots * channels; at += channels)
      total += channel_pair{shared[at], shared[Threads + at]};
    b.sync();  // before the next sum writes
    return total;
  }
};

/// Collective, at the end of every block of a pass, when its chunk's entries are written. Merges
/// the entries e_k, of rows_k rows each, into
///
///   combine.total(sum of combine.term(rows_k, e_k, e_0), all rows, e_0)
///
/// and calls finish(group, lane, merged) for every channel, on one thread. `shared` holds two
/// doubles of each thread.
template <int Threads, class Block, class Combine, class Finish>
CORDEE_DEVICE void merge_chunks(Block& b, const merge_place& at, const chunk_merge& m,
                                double* shared, const Combine& combine, const Finish& finish) {
  const channel_threads<Threads> own(at, b.thread());
  const std::size_t set = at.chunk / m.set, first = set * m.set,
                    count = std::min(m.set, m.chunks - first), g = at.group;
  const auto merge = [&](std::size_t from, std::size_t rows_each, std::size_t first_row,
                         std::size_t last_row) {
    const std::size_t entry = m.entry(g, from, own.lane);
    const auto load = [&](std::size_t k) {
      return channel_pair{m.firsts[entry + k * m.lanes], m.seconds[entry + k * m.lanes]};
    };
    const std::size_t rows = last_row - std::min(first_row, last_row);
    // An empty chunk's entries are not written.
    const channel_pair origin = own.is_active && rows > 0 ? load(0) : channel_pair{0, 0};
    const channel_pair sum =
        own.sum(b, shared, device::blocks_for(rows, rows_each), load,
                [&](std::size_t k, const channel_pair& of) {
                  return combine.term(
                      static_cast<double>(std::min(rows_each, rows - k * rows_each)), of, origin);
                });
    return combine.total(sum, static_cast<double>(rows), origin);
  };
  unsigned* const arrived = m.arrived + (g * m.tiles + at.tile) * (m.sets + 1);
  if (!b.is_last(arrived + set, static_cast<unsigned>(count))) return;
  const std::size_t set_rows = m.set * m.rows;
  // NaN of a set without rows, which is not read.
  const channel_pair of_set =
      merge(first, m.rows, first * m.rows, std::min(at.rows, (set + 1) * set_rows));
  if (own.is_writer()) {
    const std::size_t entry = m.entry(g, m.chunks + set, own.lane);
    m.firsts[entry] = of_set.first;
    m.seconds[entry] = of_set.second;
  }
  if (!b.is_last(arrived + m.sets, static_cast<unsigned>(m.sets))) return;
  const channel_pair of_group = merge(m.chunks, set_rows, 0, at.rows);
  if (own.is_writer()) finish(g, own.lane, of_group);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
