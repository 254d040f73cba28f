// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which rank of a reducer under test is at fault for a stall: the one that has returned from mix
// while others wait in it, or the one that waits alone.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI::detail::testing {

/// Calls of mix by each rank. Ranks that do not share memory have their own entry alone, from which
/// nothing follows.
struct mix_count {
  std::vector<std::atomic<int>> begun, returned;  // by rank

  explicit mix_count(int ranks)
      : begun(static_cast<std::size_t>(ranks)), returned(static_cast<std::size_t>(ranks)) {}

  /// "; rank 2 returned from mix while rank 0, rank 1 waited in it: ...", or nothing.
  [[nodiscard]] std::string describe() const {
    std::string inside, outside;
    int waiting = 0, gone = 0;
    for (std::size_t rank = 0; rank < begun.size(); ++rank) {
      if (begun[rank] == 0) continue;
      const bool waits = begun[rank] > returned[rank];
      std::string& list = waits ? inside : outside;
      list += concat(list.empty() ? "rank " : ", rank ", rank);
      ++(waits ? waiting : gone);
    }
    if (waiting == 0 || gone == 0) return {};
    return gone <= waiting
               ? concat("; ", outside, " returned from mix while ", inside,
                        " waited in it: it must make every exchange that they expect")
               : concat("; ", inside, " waited in mix while ", outside,
                        " returned from it: it expects an exchange that they do not make");
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::testing
