// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An operation that one rank has completed and other ranks took part in, as a line of text for
// another process:
//
//   "12 0-2,5-5 step 3, bucket 0"     the twelfth of its kind, ranks 0, 1, 2 and 5, its name
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// The count-th operation of its kind, which these ranks took part in.
struct completed_op {
  std::int64_t count = 0;
  std::string name{};
  std::vector<int> ranks{};  // of the run

  [[nodiscard]] bool includes(int rank) const {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
  [[nodiscard, gnu::cold]] std::string serialize() const {
    std::string ranges;
    for (std::size_t i = 0, end; i < ranks.size(); i = end) {
      for (end = i + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
      ranges += concat(i == 0 ? "" : ",", ranks[i], '-', ranks[end - 1]);
    }
    return concat(count, ' ', ranges, ' ', name);
  }
  /// Empty unless `line` is one of serialize(), of a run of so many `ranks`: it comes from another
  /// process, so nothing of it is believed.
  [[nodiscard, gnu::cold]] static std::optional<completed_op> parse(std::string_view line,
                                                                    int ranks) {
    completed_op op;
    const auto take = [&line](auto& number) {
      const auto [end, status] = std::from_chars(line.data(), line.data() + line.size(), number);
      line.remove_prefix(static_cast<std::size_t>(end - line.data()));
      return status == std::errc{} && number >= 0;
    };
    const auto skip = [&line](char c) {
      const bool found = line.starts_with(c);
      if (found) line.remove_prefix(1);
      return found;
    };
    if (!take(op.count) || !skip(' ')) return {};
    int previous = -1;  // ranges are in ascending order, so there are at most `ranks` ranks
    do {
      int first = 0, last = 0;
      if (!take(first) || !skip('-') || !take(last)) return {};
      if (first <= previous || last < first || last >= ranks) return {};
      for (int rank = first; rank <= last; ++rank) op.ranks.push_back(rank);
      previous = last;
    } while (skip(','));
    if (!skip(' ')) return {};
    op.name = line;
    return op;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
