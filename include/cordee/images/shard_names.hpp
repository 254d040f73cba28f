// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Names of shards by one pattern: "train-{000..127}.tar" is 128 names, as in a shell.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// The pattern with each {first..last} replaced by the numbers from first to last, the rightmost
/// the fastest; numbers are padded by zeros if first or last begins with 0. Other braces are left
/// as they are. Throws usage_error for more than a million names.
inline std::vector<std::string> shard_names(const std::string& pattern) {
  constexpr std::size_t most = 1000000;
  const auto number = [](std::string_view digits, std::uint64_t& value) {
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return code == std::errc() && end == digits.data() + digits.size() && digits.size() < 18;
  };
  const std::string_view text = pattern;
  for (std::size_t open = text.find('{'); open != text.npos; open = text.find('{', open + 1)) {
    const std::size_t close = text.find('}', open), dots = text.find("..", open);
    if (close == text.npos || dots > close) continue;
    const std::string_view first = text.substr(open + 1, dots - open - 1);
    const std::string_view last = text.substr(dots + 2, close - dots - 2);
    std::uint64_t from = 0, to = 0;
    if (!number(first, from) || !number(last, to)) continue;
    if (from > to || to - from >= most)
      throw usage_error(concat("the shards ", pattern, ": {", first, "..", last,
                               "} must name 1 to ", most, " numbers in increasing order"));
    const bool padded =
        (first.size() > 1 && first[0] == '0') || (last.size() > 1 && last[0] == '0');
    const std::size_t digits = padded ? std::max(first.size(), last.size()) : 0;
    const std::vector<std::string> rests = shard_names(pattern.substr(close + 1));
    if (rests.size() * (to - from + 1) > most)
      throw usage_error(concat("the shards ", pattern, ": more than ", most, " names"));
    std::vector<std::string> names;
    for (std::uint64_t k = from; k <= to; ++k) {
      std::string middle = concat(k);
      if (middle.size() < digits) middle.insert(0, digits - middle.size(), '0');
      for (const std::string& rest : rests)
        names.push_back(concat(text.substr(0, open), middle, rest));
    }
    return names;
  }
  return {pattern};
}

}  // namespace cordee::inline CORDEE_ABI::detail::images
