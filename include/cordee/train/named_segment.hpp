// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A segment of a table by its name.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// The edit distance of two names (Levenshtein 1966): insertions, deletions and replacements.
[[gnu::cold]] inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // of a's first i characters to b's first j
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j + 1] + 1, row[j] + 1}));
    }
  }
  return row.back();
}

/// Throws usage_error, with the nearest name, if the table has no segment of that name.
[[gnu::cold]] inline const segment& named_segment(std::span<const segment> table,
                                                  std::string_view name) {
  std::string_view nearest;
  std::size_t least = ~std::size_t{0};
  for (const segment& s : table) {
    if (s.name == name) return s;
    const std::size_t distance = edit_distance(name, s.name);
    if (distance >= least) continue;
    least = distance;
    nearest = s.name;
  }
  throw usage_error(
      concat("no segment is named \"", name, "\"",
             nearest.empty() ? "" : concat("; the nearest name is \"", nearest, "\"")));
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
