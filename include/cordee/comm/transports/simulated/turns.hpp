// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Fibers that wait until no other one can act before a time.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class turns {
 public:
  void add(double time, std::size_t fiber) { waiting_.emplace(time, fiber); }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  /// Infinity if none waits.
  [[nodiscard]] double next_time() const {
    return empty() ? std::numeric_limits<double>::infinity() : waiting_.top().first;
  }
  /// The fiber of the earliest time, which waits no longer.
  std::size_t take() {
    const std::size_t fiber = waiting_.top().second;
    waiting_.pop();
    return fiber;
  }

 private:
  std::priority_queue<std::pair<double, std::size_t>, std::vector<std::pair<double, std::size_t>>,
                      std::greater<>>
      waiting_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
