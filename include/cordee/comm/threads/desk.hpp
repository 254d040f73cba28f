// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where one rank of a process waits on one lane, and the mailboxes that stand there.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include <cordee/comm/threads/mailbox.hpp>
#include <cordee/comm/threads/waiting_room.hpp>

namespace cordee::inline CORDEE_ABI::detail {

struct desk {
  explicit desk(int ranks) : from(static_cast<std::size_t>(ranks)) {}

  std::vector<mailbox> from;     // one a sender
  waiting_room room;             // for what is said to this rank, and for what it said to be read
  std::atomic<int> awaited{-1};  // the rank that is waited for here
};

}  // namespace cordee::inline CORDEE_ABI::detail
