// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where one rank of a process waits on one lane, and the mailboxes that stand there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cordee/comm/threads/mailbox.hpp>
#include <cordee/comm/threads/waiting_room.hpp>

namespace cordee::inline CORDEE_ABI::detail {

struct desk {
  explicit desk(int ranks) : from(static_cast<std::size_t>(ranks)) {}

  std::vector<mailbox> from;     // one a sender
  waiting_room room;             // for what is said to this rank, and what it said to be read
  std::atomic<int> awaited{-1};  // the rank that is waited for here
  std::atomic<int> due{-1};      // and by whoever hears any source, beside one who speaks to it
  std::atomic<std::uint64_t> turns{0};  // taken by who speaks where any source is heard

  /// The sender of the note with the lowest turn, or -1.
  [[nodiscard]] int first() const {
    int sender = -1;
    std::uint64_t least = 0;
    for (std::size_t i = 0; i < from.size(); ++i)
      if (const note* n = from[i].next(); n != nullptr && (sender < 0 || n->turn < least)) {
        sender = static_cast<int>(i);
        least = n->turn;
      }
    return sender;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail
