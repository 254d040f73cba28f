// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What some ranks have had part in, as a line that another process can read:
//
//   "12 0-2,5 step 3, bucket 0"       the twelfth of its kind, ranks 0, 1, 2 and 5, its name
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <cordee/core/config.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

/// What these ranks have had part in, for one of them has finished it: the count-th of its kind.
struct milestone {
  std::int64_t count = 0;
  std::string name{};
  std::vector<int> ranks{};  // of the run

  [[nodiscard]] bool includes(int rank) const {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
  [[nodiscard, gnu::cold]] std::string line() const {
    std::string runs;
    for (std::size_t i = 0, end; i < ranks.size(); i = end) {
      for (end = i + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
      runs += text(i == 0 ? "" : ",", ranks[i], '-', ranks[end - 1]);
    }
    return text(count, ' ', runs, ' ', name);
  }
  [[nodiscard, gnu::cold]] static milestone of(const std::string& line) {
    char* at = nullptr;
    milestone said{std::strtoll(line.c_str(), &at, 10)};
    do {
      const long first = std::strtol(at + 1, &at, 10), last = std::strtol(at + 1, &at, 10);
      for (long rank = first; rank <= last; ++rank) said.ranks.push_back(static_cast<int>(rank));
    } while (*at == ',');
    said.name = line.substr(static_cast<std::size_t>(at - line.c_str()) + 1);
    return said;
  }
};

}  // namespace cordee::inline CORDEE_ABI
