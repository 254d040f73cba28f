// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One rank's transfers on one context, between threads.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/transports/threads/world.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/core/owned_array.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class thread_context {
 public:
  thread_context(const core::counted_ptr<thread_world>& world, int rank, int context)
      : world_(world), rank_(rank), context_(context) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int number() const { return context_; }
  [[nodiscard]] thread_world& world() const { return *world_; }
  [[nodiscard]] thread_context duplicate(int k) const { return {world_, rank_, k}; }

  /// Copies a message, or adds it to what the receiver has, as work of a stream, which is finished
  /// then.
  using consume_function = void(std::byte* to, const std::byte* from, std::size_t size,
                                const void* stream);

  /// Posts all sends, receives in the order of the list, and waits until the sends that point into
  /// this rank's memory have been consumed. One function for copies and sums: it takes long to
  /// compile, and a call of `consume` is little beside a message.
  template <class D>
  void transfer(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                consume_function& consume, const typename D::stream& s) const {
    for (const auto& message : out) checked(message.peer);
    for (const auto& message : in) checked(message.peer);
    core::owned_array<completion> completions(out.size());
    try {
      for (std::size_t i = 0; i < out.size(); ++i) post(out[i], !in.empty(), completions[i]);
      for (const auto& message : in) receive(message, consume, s);
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (completions[i].of == nullptr) continue;
        wait(
            out[i].peer, [&] { return completions[i].done.load(); }, "to receive",
            out[i].bytes.size);
        if (completions[i].failed) throw_aborted();
      }
    } catch (...) {
      cancel(out, completions);
      throw;
    }
  }

  /// See AnySource.
  [[nodiscard, gnu::cold]] int probe_any(std::span<const int> expected) const {
    endpoint& own = endpoint_of(rank_);
    const auto left_peer = [&] {
      const auto left = [&](int peer) { return world_->has_left(checked(peer)); };
      const auto found = std::find_if(expected.begin(), expected.end(), left);
      return found == expected.end() ? -1 : *found;
    };
    const auto ready = [&] {
      return own.first_sender() >= 0 || left_peer() >= 0 || world_->failed();
    };
    const auto start = std::chrono::steady_clock::now();
    own.expected_source = expected.empty() ? -1 : expected.front();
    do own.waiter.wait(world_->deadline, ready);
    while (expected.empty() && !ready());
    const int left = left_peer(), sender = own.first_sender();  // a peer sends before it leaves
    if (sender < 0)
      world_->fail_wait(rank_, context_, describe_sources(expected, context_),
                        left >= 0 ? left : own.expected_source.load(), left >= 0, start, true);
    own.expected_source = -1;
    return sender;
  }

  /// Blocks until all ranks have published; throws unless all have published as many bytes, to
  /// `purpose`.
  void enter_barrier(shared_mean& shared, std::size_t size_in_bytes,
                     const char* purpose = "a mean") const {
    const auto left_peer = [&] {
      int peer = 0;
      while (peer < world_->size && !world_->has_left(peer)) ++peer;
      return peer;
    };
    const auto start = std::chrono::steady_clock::now();
    if (!shared.enter_barrier(rank_, world_->deadline,
                              [&] { return world_->failed() || left_peer() < world_->size; })) {
      std::vector<int> missing{left_peer()};
      const bool left = missing.front() < world_->size;
      if (!left) missing = shared.missing(rank_);
      std::string names;
      for (const int peer : missing) names += concat(names.empty() ? "" : ", ", "rank ", peer);
      if (names.empty()) names = "all ranks";  // which were there, and have given up
      world_->fail_wait(
          rank_, context_,
          concat(names, " to contribute ", size_in_bytes, " bytes on context ", context_),
          missing.empty() ? -1 : missing.front(), left, start);
    }
    for (int peer = 0; peer < world_->size; ++peer)
      if (const std::size_t published = shared.published_bytes(rank_, peer);
          published != size_in_bytes)
        world_->fail_mismatch(
            rank_, concat("rank ", rank_, " contributes ", size_in_bytes, " bytes to ", purpose,
                          " on context ", context_, ", rank ", peer, " contributes ", published,
                          ": the ranks disagree on what they exchange"));
  }

 private:
  // A send without a matching receive in the same call blocks until consumed, however short it is;
  // otherwise a fast sender could run ahead without bound.
  template <class D>
  void post(const send_op<D>& message, bool receives, completion& awaited) const {
    endpoint& peer = endpoint_of(message.peer);
    spsc_queue& queue = queue_from(peer, rank_);
    const auto [data, size] = message.bytes;
    const std::uint64_t ticket = context_ == request_context ? peer.next_ticket++ : 0;
    if (D::host_memory && receives && size <= short_bytes && queue.has_room())
      queue.push_copy(data, size, ticket);
    else
      queue.push(data, size, awaited, ticket);
    peer.waiter.notify_all();
  }

  template <class D>
  void receive(const recv_op<D>& message, consume_function& consume,
               const typename D::stream& s) const {
    const int peer = message.peer;
    const auto [data, size] = message.bytes;
    spsc_queue& queue = queue_from(endpoint_of(rank_), peer);
    wait(
        peer, [&] { return queue.front() != nullptr; }, "to send", size);
    const packet& p = *queue.front();
    if (p.size != size) refuse_size(peer, size, p.size);
    if (!queue.try_claim())
      fail_wait(peer, false, "to send", size, std::chrono::steady_clock::now());
    completion* const awaited = p.awaited;
    // The sender waits for a claimed packet as long as this rank may read it: also where consume
    // throws, which on a GPU every copy may, the packet is completed.
    const auto complete = [&](bool failed) {
      queue.pop();
      if (awaited == nullptr) return;
      awaited->failed = failed;
      awaited->done = true;
      endpoint_of(peer).waiter.notify_all();
    };
    try {
      if (size > 0) consume(data, p.data, size, &s);
    } catch (const std::exception& e) {
      fail_receive(peer, size, e.what());
      complete(true);
      throw;
    } catch (...) {
      fail_receive(peer, size, "something that is not a std::exception was thrown");
      complete(true);
      throw;
    }
    complete(false);
  }

  template <class Ready>
  void wait(int peer, Ready ready, const char* verb, std::size_t size) const {
    if (ready()) return;
    const auto start = std::chrono::steady_clock::now();
    endpoint& own = endpoint_of(rank_);
    own.awaited_peer = peer;
    own.waiter.wait(world_->deadline,
                    [&] { return ready() || world_->has_left(peer) || world_->failed(); });
    const bool left = world_->has_left(peer);  // read before ready(): a peer sends before it leaves
    if (!ready()) fail_wait(peer, left, verb, size, start);
    own.awaited_peer = -1;
  }

  [[noreturn, gnu::cold]] void fail_wait(int peer, bool left, const char* verb, std::size_t size,
                                         std::chrono::steady_clock::time_point start) const {
    world_->fail_wait(rank_, context_,
                      concat("rank ", peer, " ", verb, " ", size, " bytes on context ", context_),
                      peer, left, start);
  }

  [[noreturn, gnu::cold, gnu::noinline]] void refuse_size(int peer, std::size_t expected,
                                                          std::size_t sent) const {
    world_->fail_mismatch(rank_, concat("rank ", rank_, " expects ", expected, " bytes from rank ",
                                        peer, " on context ", context_, ", which sends ", sent,
                                        ": the ranks disagree on what they exchange"));
  }
  [[gnu::cold, gnu::noinline]] void fail_receive(int peer, std::size_t size,
                                                 const char* why) const {
    world_->fail(rank_, concat("cannot receive ", size, " bytes from rank ", peer, " on context ",
                               context_, ": ", why, error_context::suffix()));
  }

  [[noreturn, gnu::cold]] void throw_aborted() const {
    throw error(concat("rank ", rank_, " aborted: ", world_->first_failure.cause()));
  }

  // No rank may read this rank's memory once transfer has thrown: cancels the sends that are not
  // claimed and waits for the others.
  template <class D>
  [[gnu::cold]] void cancel(std::span<const send_op<D>> out,
                            const core::owned_array<completion>& completions) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      if (completions[i].of != nullptr &&
          !queue_from(endpoint_of(out[i].peer), rank_).cancel(completions[i]))
        while (!completions[i].done)
          endpoint_of(rank_).waiter.wait(world_->deadline,
                                         [&] { return completions[i].done.load(); });
  }

  int checked(int peer) const {
    expects_peer("threads", peer, world_->size);
    return peer;
  }
  endpoint& endpoint_of(int rank) const { return world_->endpoint_of(rank, context_); }
  static spsc_queue& queue_from(endpoint& receiver, int sender) {
    return receiver.queues[static_cast<std::size_t>(sender)];
  }

  /// Up to so many bytes are copied into the queue, so that the sender need not wait.
  static constexpr std::size_t short_bytes = 1u << 13;

  core::counted_ptr<thread_world> world_;
  int rank_, context_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
