// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The state of a simulated rank's fiber, and why no fiber can continue.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include <cordee/comm/transports/simulated/critical_path.hpp>
#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

struct simulated_task {
  static constexpr std::size_t no_fiber = ~std::size_t{0};

  int rank;
  critical_path clock{};
  std::uint64_t rounds = 0;
  bool ended = false;
  std::size_t joined_by = no_fiber;
  bool waits = false;       // for messages, or for its turn
  std::size_t pending = 0;  // messages of its exchange that have not arrived, with contention
  int sender = -1;          // which probe_any found
};
/// By the number of the fiber.
using simulated_tasks = std::deque<simulated_task>;

[[nodiscard]] inline bool has_left(const simulated_tasks& tasks, int rank) {
  return std::none_of(tasks.begin(), tasks.end(),
                      [&](const simulated_task& t) { return t.rank == rank && !t.ended; });
}

/// No fiber can continue, and `fiber` waits: for which rank, and for which one that waits.
/// awaited(k): what fiber k waits for, and which rank's part it is.
template <class F>
[[nodiscard, gnu::cold]] std::string describe_deadlock(const simulated_tasks& tasks,
                                                       std::size_t fiber, const F& awaited) {
  std::size_t last = fiber;
  for (std::size_t hop = 0; hop < tasks.size(); ++hop) {
    const int peer = awaited(last).second;
    const auto next = std::find_if(tasks.begin(), tasks.end(), [&](const simulated_task& other) {
      return other.rank == peer && other.waits;
    });
    if (next == tasks.end()) break;
    last = static_cast<std::size_t>(next - tasks.begin());
  }
  const int end = awaited(last).second;
  return concat(
      "rank ", tasks[fiber].rank, " waits for ", awaited(fiber).first,
      last == fiber ? "" : concat(", which waits in turn for rank ", end),
      end >= 0 && has_left(tasks, end)
          ? concat(", but rank ", end, " has left the run: every rank must make the same exchanges")
          : ", and all wait for one another");
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
