// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An operation that one rank has completed and other ranks took part in, as a line of text for
// another process:
//
//   "12 0-2,5-5 step 3, bucket 0"     the twelfth of its kind, ranks 0, 1, 2 and 5, its name
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
    for (const int one : ranks)
      if (one == rank) return true;
    return false;
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
  /// process, so nothing of it is believed. Defined in failure_report.hpp.
  [[nodiscard]] static std::optional<completed_op> parse(std::string_view line, int ranks);
};

/// Adds `op` to `ops`, or its ranks to those of the same operation there, in ascending order, as
/// parse() expects them.
template <std::same_as<completed_op> Op>  // a template: only programs of several ranks compile it
[[gnu::cold, gnu::noinline]] void merge(std::vector<Op>& ops, const Op& op) {
  for (completed_op& known : ops)
    if (known.count == op.count && known.name == op.name) {
      for (const int rank : op.ranks) {
        auto at = known.ranks.end();
        while (at != known.ranks.begin() && at[-1] >= rank) --at;
        if (at == known.ranks.end() || *at != rank) known.ranks.insert(at, rank);
      }
      return;
    }
  // push_back's growth would be compiled for speed.
  std::vector<Op> longer(ops.size() + 1);
  std::move(ops.begin(), ops.end(), longer.begin());
  longer.back() = op;
  ops.swap(longer);
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
