// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of ranks without samples that share batch norm's statistics: all ranks have the running
// statistics, bit by bit, that the ranks with samples have without them; where no rank has samples
// nothing moves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/rank_sum.hpp"

namespace support {

struct running_statistics {
  std::vector<double> mean, variance;

  bool operator==(const running_statistics&) const = default;
};

/// `take(seed, samples, seat)` returns a rank's running statistics after one forward pass, which
/// were `before`, of so many samples drawn from the seed.
template <class Take>
void check_empty_ranks(const running_statistics& before, const Take& take) {
  const auto samples_of = [](std::size_t seed) { return static_cast<int>(1 + seed % 3); };
  for (const std::size_t ranks : {1U, 2U, 3U, 5U, 8U}) {
    const std::size_t all = (std::size_t{1} << ranks) - 1, last = std::size_t{1} << (ranks - 1);
    for (const std::size_t chosen :
         {std::size_t{1}, last, std::size_t{0xaa}, all - 1, all - last, all}) {
      const std::size_t empty = chosen & all;  // a bit for each rank
      CAPTURE(ranks);
      CAPTURE(empty);
      const auto is_empty = [&](std::size_t r) { return (empty >> r & 1) != 0; };
      std::vector<std::size_t> filled;
      for (std::size_t r = 0; r < ranks; ++r)
        if (!is_empty(r)) filled.push_back(r);
      std::vector<running_statistics> shared(ranks), without(filled.size());
      rank_sum m(ranks), fewer(filled.size());
      m.on_each_rank([&](rank_sum::participant& seat) {
        const std::size_t r = seat.rank;
        shared[r] = take(r, is_empty(r) ? 0 : samples_of(r), seat);
      });
      fewer.on_each_rank([&](rank_sum::participant& seat) {
        const std::size_t r = filled[seat.rank];
        without[seat.rank] = take(r, samples_of(r), seat);
      });
      CHECK(m.calls == std::vector<int>(ranks, m.calls[0]));
      for (std::size_t r = 0; r < ranks; ++r) {
        CAPTURE(r);
        CHECK(shared[r] == (filled.empty() ? before : without[0]));
        CHECK((shared[r] == before) == filled.empty());
      }
    }
  }
}

}  // namespace support
