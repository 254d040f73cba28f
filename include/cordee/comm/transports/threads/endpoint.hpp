// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where one rank of a process receives on one context: its queues, and what it blocks on.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/comm/transports/threads/spin_then_sleep.hpp>
#include <cordee/comm/transports/threads/spsc_queue.hpp>
#include <cordee/core/atomic.hpp>
#include <cordee/core/owned_array.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

struct alignas(64) endpoint {             // a cache line of its own
  core::owned_array<spsc_queue> queues;   // by sender
  spin_then_sleep waiter;                 // notified of packets pushed here and of completed sends
  core::atomic<int> awaited_peer{-1};     // that this rank waits for
  core::atomic<int> expected_source{-1};  // that its probe_any waits for, on another thread
  core::atomic<std::uint64_t> next_ticket{0};  // drawn by senders where any source is received

  /// The sender of the pending packet with the lowest ticket, or -1.
  [[nodiscard]] int first_sender() const {
    int sender = -1;
    std::uint64_t lowest = 0;
    for (std::size_t i = 0; i < queues.size(); ++i)
      if (const packet* p = queues[i].front(); p != nullptr && (sender < 0 || p->ticket < lowest)) {
        sender = static_cast<int>(i);
        lowest = p->ticket;
      }
    return sender;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
