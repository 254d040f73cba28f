// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The packets from one rank to another on one context, in order: a lock-free queue of one producer
// and one consumer.
//
//   The producer appends a packet behind the last one; the consumer reads the one behind the packet
//   that it popped before; packets older than that are reused (Vyukov's SPSC queue).
//
// A packet is a copy, or a pointer into the sender's memory with a completion that the sender
// awaits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <cordee/core/atomic.hpp>
#include <cordee/core/config.hpp>
#include <cordee/core/mutex.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

struct packet;

/// Completion of a packet that points into the sender's memory; lives on the sender's stack.
struct completion {
  packet* of = nullptr;            // nullptr: there is nothing to wait for
  bool claimed = false;            // guarded by the queue's mutex; then `of` is the consumer's
  bool failed = false;             // written by the consumer before done: it could not consume
  core::atomic<bool> done{false};  // the consumer's last access
};

struct packet {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  completion* awaited = nullptr;  // nullptr: data is a copy
  std::vector<std::byte> copy;
  bool canceled = false;     // guarded by the queue's mutex
  std::uint64_t ticket = 0;  // orders the packets of all senders, where any source is received
  core::atomic<packet*> next{nullptr};
};

class spsc_queue {
 public:
  spsc_queue() = default;
  spsc_queue(const spsc_queue&) = delete;
  spsc_queue& operator=(const spsc_queue&) = delete;
  ~spsc_queue() {
    while (oldest_ != nullptr) delete std::exchange(oldest_, oldest_->next.load());
  }

  // ---- the producer's end ----

  /// Whether another copy may be pushed; otherwise the producer must wait for the consumer.
  [[nodiscard]] bool has_room() { return has_free() || packets_ < capacity; }

  void push_copy(const std::byte* data, std::size_t size, std::uint64_t ticket = 0) {
    packet& p = free_packet();
    p.copy.assign(data, data + size);
    p.ticket = ticket;
    append(p, p.copy.data(), size, nullptr);
  }
  /// Requires that data is valid until awaited.done or a successful cancel.
  void push(const std::byte* data, std::size_t size, completion& awaited,
            std::uint64_t ticket = 0) {
    awaited.of = &free_packet();
    awaited.of->ticket = ticket;
    append(*awaited.of, data, size, &awaited);
  }

  /// Returns whether the consumer has not claimed the packet, and never will.
  bool cancel(const completion& awaited) {
    const core::scoped_lock lock(mutex_);
    if (!awaited.claimed) awaited.of->canceled = true;
    return !awaited.claimed;
  }

  // ---- the consumer's end ----

  /// The oldest packet, or nullptr.
  [[nodiscard]] const packet* front() const { return popped_.load()->next; }

  /// Returns whether the front packet's memory may be read: false if it was canceled; otherwise its
  /// producer waits until done.
  bool try_claim() {
    const packet& p = *front();
    if (p.awaited == nullptr) return true;
    const core::scoped_lock lock(mutex_);
    if (!p.canceled) p.awaited->claimed = true;
    return !p.canceled;
  }
  void pop() { popped_ = popped_.load()->next.load(); }

 private:
  static constexpr std::size_t capacity = 16;

  bool has_free() {
    if (oldest_ == popped_seen_) popped_seen_ = popped_;  // the consumer's cache line: read seldom
    return oldest_ != popped_seen_;
  }
  packet& free_packet() {
    if (has_free()) return *std::exchange(oldest_, oldest_->next.load());
    ++packets_;
    return *new packet;
  }
  void append(packet& p, const std::byte* data, std::size_t size, completion* awaited) {
    p.data = data;
    p.size = size;
    p.awaited = awaited;
    p.next = nullptr;
    std::exchange(last_, &p)->next = &p;
  }

  packet *oldest_ = new packet, *last_ = oldest_, *popped_seen_ = oldest_;
  std::size_t packets_ = 1;
  alignas(64) core::atomic<packet*> popped_{oldest_};
  core::mutex mutex_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
