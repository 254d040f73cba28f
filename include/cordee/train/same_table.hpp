// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A check before the first step that all ranks have the same parameters in the same buckets. Ranks
// with different ones would wait for messages that are never sent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/collectives.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// "\"layer1.0.conv1.weight\" (16, 16, 3, 3)"
[[gnu::cold]] inline std::string describe(const segment& s) {
  std::string sides;
  for (const int side : s.shape)
    if (side > 0) sides += concat(sides.empty() ? "" : ", ", side);
  return concat("\"", s.name, "\" (", sides.empty() ? concat(s.size) : sides, ")");
}

/// Every rank's `values`, (ranks, n). Collective.
template <class Communicator>
std::vector<double> gather(const Communicator& comm, std::span<const double> values) {
  if (comm.size() == 1) return {values.begin(), values.end()};
  return comm::gather_host(comm, values);
}

/// The first row of `rows`, (ranks, n), that differs from row 0; 0 if none does.
inline std::size_t first_other_row(std::span<const double> rows, std::size_t n) {
  for (std::size_t at = n; at < rows.size(); at += n)
    if (!std::equal(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(n),
                    rows.begin() + static_cast<std::ptrdiff_t>(at)))
      return at / n;
  return 0;
}

/// What differs between rank 0 and rank `other`, of which the hashes, numbers of tensors and of
/// buckets are in `summaries`, (ranks, 4). Collective.
template <class Communicator>
[[gnu::cold]] std::string describe_difference(const Communicator& comm,
                                              std::span<const segment> table, std::size_t other,
                                              std::span<const double> summaries) {
  const auto count = [&](std::size_t rank, std::size_t what) {
    return static_cast<std::size_t>(summaries[4 * rank + what]);
  };
  std::size_t n = 0;
  for (std::size_t at = 2; at < summaries.size(); at += 4) n = std::max(n, count(at / 4, 2));
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

  constexpr std::size_t longest = 200;
  std::vector<double> letters(longest);
  const std::string own = k < table.size() ? describe(table[k]) : "no such tensor";
  for (std::size_t i = 0; i < std::min(longest, own.size()); ++i)
    letters[i] = static_cast<unsigned char>(own[i]);
  const std::vector<double> texts = gather(comm, letters);  // (ranks, longest)
  const auto text_of = [&](std::size_t rank) {
    std::string text;
    for (std::size_t i = rank * longest; i < (rank + 1) * longest && texts[i] > 0; ++i)
      text += static_cast<char>(static_cast<unsigned char>(texts[i]));
    return text;
  };
  return concat("the networks differ, first in tensor ", k, ": rank 0 has ", text_of(0), ", rank ",
                other, " has ", text_of(other),
                text_of(0) == text_of(other) ? " of another kind or at another offset" : "",
                ": give every rank the same network");
}

/// Throws on every rank, with the first tensor that differs, unless all ranks have the same table
/// and the same buckets. Collective.
template <class Communicator>
void expect_same_table(const Communicator& comm, std::span<const segment> table,
                       std::span<const bucket> buckets) {
  std::uint64_t hash = detail::core::fingerprint(table);
  for (const bucket& b : buckets) hash = hash * 31 + b.size;
  const double summary[]{static_cast<double>(hash >> 32), static_cast<double>(hash & 0xffffffffu),
                         static_cast<double>(table.size()), static_cast<double>(buckets.size())};
  const std::vector<double> summaries = gather(comm, summary);
  if (const std::size_t other = first_other_row(summaries, 4); other != 0)
    throw error("trainer: " + describe_difference(comm, table, other, summaries));
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
