// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which option a mistyped name is likely to mean.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace train {

/// Letters to insert, to remove or to replace, by Levenshtein.
inline std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t k = 0; k < b.size(); ++k) {
      const std::size_t replaced = diagonal + (a[i] == b[k] ? 0 : 1);
      diagonal = std::exchange(row[k + 1], std::min({replaced, row[k] + 1, row[k + 1] + 1}));
    }
  }
  return row.back();
}

/// The nearest of `names`, without their dashes; empty if none is near.
inline std::string near_name(std::string typed, const std::vector<std::string>& names) {
  typed = typed.substr(0, typed.find('='));
  typed.erase(0, std::min(typed.find_first_not_of('-'), typed.size()));
  std::replace(typed.begin(), typed.end(), '_', '-');
  std::string nearest;
  std::size_t least = typed.size() / 3 + 1;  // letters that may differ, and one
  for (const std::string& name : names)
    if (const std::size_t d = edit_distance(typed, name); d < least) {
      least = d;
      nearest = name;
    }
  return nearest;
}

}  // namespace train
