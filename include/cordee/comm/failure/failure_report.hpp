// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reads failure reports of other processes, of which nothing is believed. Apart from failure.hpp,
// which every program over several ranks includes: ranks as threads need no text.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <cordee/comm/failure/completed_op.hpp>
#include <cordee/comm/failure/failure.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

[[gnu::cold]] inline std::optional<completed_op> completed_op::parse(std::string_view line,
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

[[gnu::cold]] inline void failure::merge_report(int rank, std::string_view serialized) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= reports_.size()) return;
  const char* const last = serialized.data() + serialized.size();
  ms::rep waited = 0;
  std::size_t size = 0;
  const auto [space, has_waited] = std::from_chars(serialized.data(), last, waited);
  if (has_waited != std::errc{} || space == last || *space != ' ' || waited < no_wait.count())
    return;
  const auto [line_feed, has_size] = std::from_chars(space + 1, last, size);
  if (has_size != std::errc{} || line_feed == last || *line_feed != '\n') return;
  std::string_view rest(line_feed + 1, static_cast<std::size_t>(last - line_feed - 1));
  const std::string_view text = rest.substr(0, size);
  rest.remove_prefix(text.size());
  std::vector<completed_op> completed;
  const int ranks = static_cast<int>(reports_.size());
  for (std::size_t end; (end = rest.find('\n')) != std::string_view::npos;
       rest.remove_prefix(end + 1))
    if (auto op = completed_op::parse(rest.substr(0, end), ranks)) merge(completed, *op);
  add_report(rank, std::string(text), ms(waited), completed);
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
