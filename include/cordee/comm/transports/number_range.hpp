// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How a message is cut into chunks, and into a range of numbers for each rank.
#pragma once

#include <cstddef>

#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Where chunk `i` of `count` begins in n numbers; sizes differ by at most one.
constexpr std::size_t chunk_start(std::size_t n, int i, int count) {
  return n * static_cast<std::size_t>(i) / static_cast<std::size_t>(count);
}

/// Numbers begin .. end-1 of a message.
struct number_range {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
};

/// Ranges of ranks are cut at multiples of so many numbers, as segments are: the tail of a SIMD
/// loop is then the one that it has without cuts, and so are its bits.
inline constexpr std::size_t shard_unit = core::segment_alignment;

/// The range of a rank, whose whole units differ by one at most between ranks. What is left of n
/// behind the last unit is the last rank's.
constexpr number_range balanced_range(std::size_t n, int rank, int ranks) {
  const auto start = [&](int k) {
    return k == ranks ? n : chunk_start(n / shard_unit, k, ranks) * shard_unit;
  };
  return {start(rank), start(rank + 1)};
}

/// The same length for each rank, in whole units: what a collective of equal chunks leaves. Numbers
/// ranks * equal_chunk(n, ranks) to n, fewer than one unit a rank, are left over.
constexpr std::size_t equal_chunk(std::size_t n, int ranks) {
  return n / shard_unit / static_cast<std::size_t>(ranks) * shard_unit;
}
/// The range of a rank in chunks of that length; the last rank has what is left over, too.
constexpr number_range equal_range(std::size_t n, int rank, int ranks) {
  const std::size_t chunk = equal_chunk(n, ranks), begin = chunk * static_cast<std::size_t>(rank);
  return {begin, rank == ranks - 1 ? n : begin + chunk};
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
