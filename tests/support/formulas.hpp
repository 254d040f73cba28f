// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Formulas of messages and bytes, counted by hand from the methods' descriptions.
#pragma once

#include <bit>
#include <cstddef>

namespace support {

inline int below(int p) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(p))); }
inline int halvings(int p) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(p))) - 1;
}
inline std::size_t whole(int k) { return static_cast<std::size_t>(k); }

// What a folded pair adds to `steps` messages of the method.
inline std::size_t folded(int rank, int ranks, int steps) {
  const bool paired = rank < 2 * (ranks - below(ranks));
  return whole(paired ? (rank % 2 == 0 ? 1 : steps + 1) : steps);
}
inline std::size_t tree_messages(int rank, int ranks) {
  std::size_t children = 0;
  for (int edge = 1; edge < ranks && (rank & edge) == 0; edge *= 2)
    if (rank + edge < ranks) ++children;
  return children + (rank == 0 ? 0 : 1);
}

}  // namespace support
