// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Fibers that wait for a message of any source.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class probes {
 public:
  void add(std::size_t fiber, int rank, int context, std::span<const int> expected) {
    waiting_.push_back({fiber, rank, context, {expected.begin(), expected.end()}});
  }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

  /// The fiber whose first message was sent first, and that message's sender, if it was sent at
  /// `limit` or before; the fiber waits no longer. first_sent(rank, context): the time at which the
  /// first message there was sent, and its sender, -1 if there is none.
  template <class F>
  std::optional<std::pair<std::size_t, int>> answer(double limit, const F& first_sent) {
    std::size_t answered = waiting_.size();
    int sender = -1;
    for (std::size_t k = 0; k < waiting_.size(); ++k) {
      const auto [time, peer] = first_sent(waiting_[k].rank, waiting_[k].context);
      if (peer < 0 || time > limit || (sender >= 0 && time == limit)) continue;
      limit = time;
      answered = k;
      sender = peer;
    }
    if (sender < 0) return {};
    const std::size_t fiber = waiting_[answered].fiber;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(answered));
    return std::pair{fiber, sender};
  }

  /// What a fiber waits for, "rank 1 to send on context 2", and that rank, one that has left if
  /// there is one, -1 if it is any; nothing if the fiber does not wait here.
  template <class F>
  [[nodiscard, gnu::cold]] std::optional<std::pair<std::string, int>> awaited(
      std::size_t fiber, const F& has_left) const {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [=](const probe& p) { return p.fiber == fiber; });
    if (found == waiting_.end()) return {};
    const std::vector<int>& expected = found->expected;
    const auto left = std::find_if(expected.begin(), expected.end(), has_left);
    return std::pair{describe_sources(expected, found->context), left != expected.end() ? *left
                                                                 : expected.empty()
                                                                     ? -1
                                                                     : expected.front()};
  }

 private:
  struct probe {
    std::size_t fiber;
    int rank, context;
    std::vector<int> expected;  // ranks of which the fiber waits for a message
  };

  std::vector<probe> waiting_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
