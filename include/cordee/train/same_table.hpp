// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whether all ranks train the same table of parameters in the same buckets: who does not would
// exchange other things than its peers, and the run would stall at best.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI {

/// Throws on every rank, with the first two that differ, unless all ranks' tables and buckets are
/// the same. Collective.
template <class Link>
void expect_same_table(const Link& link, std::span<const segment> table,
                       std::span<const bucket> buckets) {
  std::uint64_t hash = fingerprint(table);
  for (const bucket& b : buckets) hash = hash * 31 + b.size;
  // By rank: the hash in halves, which a double holds, tensors and buckets.
  std::vector<double> all(4 * static_cast<std::size_t>(link.size()));
  const auto of = [&](int rank) { return all.data() + 4 * static_cast<std::size_t>(rank); };
  double* const mine = of(link.rank());
  mine[0] = static_cast<double>(hash >> 32);
  mine[1] = static_cast<double>(hash & 0xffffffffu);
  mine[2] = static_cast<double>(table.size());
  mine[3] = static_cast<double>(buckets.size());
  agree(link, {all.data(), all.size()}, sum{});
  const auto said = [&](int rank) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%08x%08x", static_cast<unsigned>(of(rank)[0]),
                  static_cast<unsigned>(of(rank)[1]));
    return text("rank ", rank, " has ", of(rank)[2], " tensors in ", of(rank)[3], " buckets (",
                digits, ")");
  };
  for (int rank = 1; rank < link.size(); ++rank)
    if (!std::equal(of(0), of(1), of(rank)))
      throw error(text("trainer: ", said(0), ", ", said(rank),
                       ": give every rank the same network and the same options"));
}

}  // namespace cordee::inline CORDEE_ABI
