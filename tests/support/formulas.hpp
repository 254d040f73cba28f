// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Formulas of messages and bytes, counted by hand from the methods' descriptions.
#pragma once

#include <bit>
#include <cstddef>

namespace support {

inline std::size_t to_size(int k) { return static_cast<std::size_t>(k); }

// Of p ranks: the largest power of two that is at most p, and its exponent.
inline int power_below(int p) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(p))); }
inline int log2_below(int p) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(p))) - 1;
}

// Messages of a method of `steps` messages on a power of two of ranks, remapped to any number.
inline std::size_t remapped_messages(int rank, int ranks, int steps) {
  const bool paired = rank < 2 * (ranks - power_below(ranks));
  return to_size(paired ? (rank % 2 == 0 ? 1 : steps + 1) : steps);
}
inline std::size_t tree_messages(int rank, int ranks) {
  std::size_t children = 0;
  for (int edge = 1; edge < ranks && (rank & edge) == 0; edge *= 2)
    if (rank + edge < ranks) ++children;
  return children + (rank == 0 ? 0 : 1);
}

}  // namespace support
