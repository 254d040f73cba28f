// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An operation that one rank has completed and other ranks took part in, as a line of text for
// another process:
//
//   "12 0-2,5-5 step 3, bucket 0"     the twelfth of its kind, ranks 0, 1, 2 and 5, its name
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
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
  /// Requires a line of serialize().
  [[nodiscard, gnu::cold]] static completed_op parse(const std::string& line) {
    char* end = nullptr;
    completed_op op{std::strtoll(line.c_str(), &end, 10)};
    do {
      const long first = std::strtol(end + 1, &end, 10), last = std::strtol(end + 1, &end, 10);
      for (long rank = first; rank <= last; ++rank) op.ranks.push_back(static_cast<int>(rank));
    } while (*end == ',');
    op.name = line.substr(static_cast<std::size_t>(end - line.c_str()) + 1);
    return op;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
