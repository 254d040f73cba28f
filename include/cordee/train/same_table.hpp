// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A check before the first step that all ranks have the same parameters in the same buckets, and
// the same settings. Ranks with different parameters would wait for messages that are never sent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/train/same_settings.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// "\"layer1.0.conv1.weight\" (16, 16, 3, 3)"
[[gnu::cold]] inline std::string describe(const segment& s) {
  std::string sides;
  for (const int side : s.shape)
    if (side > 0) sides += concat(sides.empty() ? "" : ", ", side);
  return concat("\"", s.name, "\" (", sides.empty() ? concat(s.size) : sides, ")");
}

/// What differs between rank 0 and rank `other`, of which the hashes, numbers of tensors and of
/// buckets are the first of the six columns of `summaries`. Collective.
template <class Communicator>
[[gnu::cold]] std::string describe_other_tensor(const Communicator& comm,
                                                std::span<const segment> table, std::size_t other,
                                                std::span<const double> summaries) {
  const auto count = [&](std::size_t rank, std::size_t what) {
    return static_cast<std::size_t>(summaries[6 * rank + what]);
  };
  std::size_t n = 0;
  for (std::size_t rank = 0; rank < summaries.size() / 6; ++rank) n = std::max(n, count(rank, 2));
  std::vector<double> digests(n);  // of each tensor, 32 bits, which a double holds; 0: no tensor
  for (std::size_t k = 0; k < table.size(); ++k) {
    const std::uint64_t hash = detail::core::fingerprint(table.subspan(k, 1));
    digests[k] = 1 + static_cast<double>((hash >> 32) ^ (hash & 0xffffffffu));
  }
  const std::vector<double> by_rank = gather(comm, digests);  // (ranks, n)
  std::size_t k = 0;
  while (k < n && by_rank[k] == by_rank[other * n + k]) ++k;
  if (k == n)
    return concat("rank 0 cuts the same tensors into ", count(0, 3), " buckets, rank ", other,
                  " into ", count(other, 3),
                  count(0, 3) == count(other, 3) ? " of other sizes" : "",
                  ": give every rank the same bucket_bytes");

  const auto [first, second] =
      gather_texts(comm, k < table.size() ? describe(table[k]) : "no such tensor", other, 200);
  return concat("the networks differ, first in tensor ", k, ": rank 0 has ", first, ", rank ",
                other, " has ", second,
                first == second ? " of another kind or at another offset" : "",
                ": give every rank the same network");
}

/// Throws on every rank, with the first tensor or setting that differs, unless all ranks have the
/// same table, the same buckets and the same settings. Collective.
template <class Communicator>
void expect_same_table(const Communicator& comm, std::span<const segment> table,
                       std::span<const bucket> buckets, const settings& own = {}) {
  std::uint64_t hash = detail::core::fingerprint(table);
  for (const bucket& b : buckets) hash = hash * 31 + b.size;
  const std::uint64_t settings_hash = own.fingerprint();
  const auto high = [](std::uint64_t bits) { return static_cast<double>(bits >> 32); };
  const auto low = [](std::uint64_t bits) { return static_cast<double>(bits & 0xffffffffu); };
  const double summary[]{high(hash),
                         low(hash),
                         static_cast<double>(table.size()),
                         static_cast<double>(buckets.size()),
                         high(settings_hash),
                         low(settings_hash)};
  const std::vector<double> rows = gather(comm, summary);  // (ranks, 6)
  const std::size_t other = first_other_row(rows, 6);
  if (other == 0) return;
  const bool same_table = std::equal(rows.begin(), rows.begin() + 4,
                                     rows.begin() + static_cast<std::ptrdiff_t>(6 * other));
  throw error("trainer: " + (same_table ? describe_other_setting(comm, own, other)
                                        : describe_other_tensor(comm, table, other, rows)));
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
