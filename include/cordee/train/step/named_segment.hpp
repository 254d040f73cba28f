// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A segment of a table by its name.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

// Templates, so that programs that name no segment do not compile this code.

/// The edit distance of two names (Levenshtein 1966): insertions, deletions and replacements.
template <std::unsigned_integral Count = std::size_t>
[[gnu::cold]] Count edit_distance(std::string_view a, std::string_view b) {
  std::vector<Count> row(b.size() + 1);  // of a's first i characters to b's first j
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    Count diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const Count replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal =
          std::exchange(row[j + 1], std::min(std::min(replaced, row[j + 1] + 1), row[j] + 1));
    }
  }
  return row.back();
}

/// Throws usage_error, with the nearest name, if the table has no segment of that name.
template <std::unsigned_integral Count = std::size_t>
[[gnu::cold]] const segment& named_segment(std::span<const segment> table, std::string_view name) {
  std::string_view nearest;
  Count least = ~Count{0};
  for (const segment& s : table) {
    if (s.name == name) return s;
    const Count distance = edit_distance<Count>(name, s.name);
    if (distance >= least) continue;
    least = distance;
    nearest = s.name;
  }
  throw usage_error(
      concat("no segment is named \"", name, "\"",
             nearest.empty() ? "" : concat("; the nearest name is \"", nearest, "\"")));
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
