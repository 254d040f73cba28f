// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives that are matched in their order, and then share the links of a machine.
//
// A message leaves when both sides have posted it; a sender waits until it has arrived.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/transports/simulated/contention.hpp>
#include <cordee/comm/transports/simulated/critical_path.hpp>
#include <cordee/comm/transports/simulated/posted_side.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class contended_exchange {
 public:
  contended_exchange(const machine& m, int ranks)
      : network_(m, ranks), receivers_(static_cast<std::size_t>(ranks)) {}

  template <Device D>
  void post(posted_side side, int context, std::span<const send_op<D>> out,
            std::span<const recv_op<D>> in) {
    for (const send_op<D>& m : out) {
      side.size = m.bytes.size;
      if constexpr (D::host_memory) side.data = const_cast<std::byte*>(m.bytes.data);
      pair& p = pair_of(m.peer, side.rank, context);
      if (p.empty() || p.of_sends)
        p.push(side, true);
      else
        match(side, p.pop(), context);
    }
    for (const recv_op<D>& m : in) {
      side.size = m.bytes.size;
      if constexpr (D::host_memory) side.data = m.bytes.data;
      pair& p = pair_of(side.rank, m.peer, context);
      if (p.empty() || !p.of_sends)
        p.push(side, false);
      else
        match(p.pop(), side, context);
    }
  }

  /// Advances to the next time at which something happens; arrived(send, receive, path) for each
  /// message. Returns whether there was such a time.
  template <class F>
  bool advance(const F& arrived) {
    return network_.advance([&](std::size_t id, double time) {
      const message& m = messages_[id];
      critical_path end = later(m.send.posted, m.receive.posted);
      end.seconds = time;
      ++end.messages;
      end.bytes += m.send.size;
      arrived(m.send, m.receive, end);
    });
  }

  [[nodiscard]] double next_time() { return network_.next_time(); }
  /// As ideal_exchange's.
  [[nodiscard]] std::pair<double, int> first_sent(int rank, int context) const {
    std::pair<double, int> first{0, -1};
    for (const auto& [source, p] : receivers_[static_cast<std::size_t>(rank)]) {
      if (source % context_count != context || p.empty() || !p.of_sends) continue;
      const std::pair<double, int> sent{p.waiting[p.first].posted.seconds, source / context_count};
      if (first.second < 0 || sent < first) first = sent;
    }
    return first;
  }

  /// What a fiber waits for, "rank 1 to send 8 bytes on context 0", and that rank; {"", -1} if it
  /// waits for nothing.
  [[nodiscard, gnu::cold]] std::pair<std::string, int> unmatched(std::size_t fiber) const {
    for (std::size_t receiver = 0; receiver < receivers_.size(); ++receiver)
      for (const auto& [source, p] : receivers_[receiver]) {
        const auto sender = source / context_count, context = source % context_count;
        for (std::size_t k = p.first; k < p.waiting.size(); ++k) {
          const posted_side& s = p.waiting[k];
          if (s.fiber != fiber) continue;
          if (p.of_sends)
            return {
                concat("rank ", receiver, " to receive ", s.size, " bytes on context ", context),
                static_cast<int>(receiver)};
          return {concat("rank ", sender, " to send ", s.size, " bytes on context ", context),
                  sender};
        }
      }
    return {"", -1};
  }

 private:
  /// What one side has posted and the other has not yet.
  struct pair {
    std::vector<posted_side> waiting{};  // those before `first` have been matched
    std::size_t first = 0;
    bool of_sends = false;  // otherwise of receives

    [[nodiscard]] bool empty() const { return first == waiting.size(); }
    void push(const posted_side& side, bool is_send) {
      of_sends = is_send;
      waiting.push_back(side);
    }
    posted_side pop() {
      const posted_side side = waiting[first++];
      if (empty() || first == most_matched) {
        waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(first));
        first = 0;
      }
      return side;
    }
  };
  static constexpr std::size_t most_matched = 64;
  struct message {
    posted_side send, receive;
  };

  pair& pair_of(int receiver, int sender, int context) {
    return receivers_[static_cast<std::size_t>(receiver)][sender * context_count + context];
  }

  void match(const posted_side& send, const posted_side& receive, int context) {
    const message m{send, receive};
    const int receiver = receive.rank;
    if (m.send.size != m.receive.size)
      throw error(concat("rank ", receiver, " expects ", m.receive.size, " bytes from rank ",
                         m.send.rank, " on context ", context, ", which sends ", m.send.size,
                         ": the ranks disagree on what they exchange", error_context::suffix()));
    if (m.receive.data != nullptr && m.send.size > 0)
      std::memcpy(m.receive.data, m.send.data, m.send.size);
    const std::size_t id =
        network_.start(m.send.rank, receiver, m.send.size,
                       std::max(m.send.posted.seconds, m.receive.posted.seconds));
    if (id == messages_.size())
      messages_.push_back(m);
    else
      messages_[id] = m;
  }

  contention network_;
  std::vector<std::unordered_map<int, pair>> receivers_;  // by the source
  std::vector<message> messages_;                         // by their numbers in the network
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
