// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a data set does not use, counted by reason: nothing vanishes without a count and a sentence.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

class reason_counts {
 public:
  void add(const std::string& reason, const std::string& name) {
    ++total_;
    const auto known =
        std::find_if(rows_.begin(), rows_.end(), [&](const row& r) { return r.reason == reason; });
    if (known != rows_.end())
      ++known->count;
    else if (rows_.size() < most_reasons)
      rows_.push_back({reason, name, 1});
    else
      ++others_;
  }

  [[nodiscard]] std::size_t total() const { return total_; }

  /// "3: it is truncated (the first: a.jpg); 1: its path is absolute (b.jpg)", the most frequent
  /// first.
  [[nodiscard]] std::string describe() const {
    std::vector<row> rows = rows_;
    std::stable_sort(rows.begin(), rows.end(),
                     [](const row& a, const row& b) { return a.count > b.count; });
    std::string text;
    for (const row& r : rows)
      text += concat(text.empty() ? "" : "; ", r.count, ": ", r.reason,
                     r.count == 1 ? " (" : " (the first: ", r.name, ")");
    if (others_ > 0) text += concat("; ", others_, ": other reasons");
    return text;
  }

 private:
  static constexpr std::size_t most_reasons = 12;
  struct row {
    std::string reason, name;  // of the first
    std::size_t count = 0;
  };

  std::vector<row> rows_;
  std::size_t total_ = 0, others_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::images
