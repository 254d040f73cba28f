// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A check before the first step that all ranks have the same parameters in the same buckets, and
// the same settings. Ranks with different parameters would wait for messages that are never sent.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/same_settings.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// "\"layer1.0.conv1.weight\" (16, 16, 3, 3), weight at 4096"
[[gnu::cold, gnu::noinline]] std::string describe(const std::same_as<segment> auto& s) {
  std::string sides;
  for (const int side : s.shape)
    if (side > 0) sides += concat(sides.empty() ? "" : ", ", side);
  if (sides.empty()) sides = concat(s.size);
  const int bit = std::countr_zero(static_cast<unsigned>(s.kind));
  return concat("\"", s.name, "\" (", sides, "), ", core::kind_names[static_cast<std::size_t>(bit)],
                " at ", s.offset);
}

/// A table as settings, to tell what differs.
[[gnu::cold, gnu::noinline]] settings table_settings(
    const std::same_as<std::span<const segment>> auto& table) {
  settings all;
  for (std::size_t k = 0; k < table.size(); ++k)
    all.add(concat("tensor ", k, " of the network"), describe(table[k]));
  return all;
}
[[gnu::cold, gnu::noinline]] void add_buckets(
    settings& all, const std::same_as<std::span<const bucket>> auto& buckets) {
  std::string sizes;
  for (const bucket& b : buckets) sizes += concat(sizes.empty() ? "" : ", ", b.size);
  all.add("trainer_options::bucket_bytes, hence the buckets,", sizes);
}

/// Throws on every rank, with the first tensor or setting that differs, unless all ranks have the
/// same table, the same buckets and the same settings. Collective.
template <class Communicator>
[[gnu::cold]] void expect_same_table(const Communicator& comm, std::span<const segment> table,
                                     std::span<const bucket> buckets, settings own = {}) {
  add_buckets(own, buckets);
  const auto [table_high, table_low] = halves_of(detail::core::fingerprint(table));
  const auto [high, low] = halves_of(own.fingerprint());
  const double hashes[]{table_high, table_low, high, low};
  const std::vector<double> rows = gather(comm, hashes);  // (ranks, 4)
  const std::size_t other = first_other_row(rows, std::size_t{4});
  if (other == 0) return;
  const bool same_table = rows[4 * other] == rows[0] && rows[4 * other + 1] == rows[1];
  if (!same_table) own = table_settings(table);
  throw error(concat("trainer: ", describe_other_setting(comm, own, other)));
}

/// As above, of a trainer's parts. Throws also, of a single rank too, for a schedule that is
/// invalid at epoch 0.
template <class M, class O, class S, class R>
[[gnu::cold]] void expect_same_trainers(const M& model, const O& optimizer, const S& schedule,
                                        const R& reducer, const trainer_options& options,
                                        std::span<const segment> table,
                                        std::span<const bucket> buckets) {
  if constexpr (!comm::single_rank<typename R::communicator_type>)
    expect_same_table(reducer.comm, table, buckets,
                      trainer_settings(model, optimizer, schedule, reducer, options));
  else
    detail::schedule::learning_rate_of(schedule, 0.0);
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
