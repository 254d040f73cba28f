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
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cordee/comm/error_context.hpp>
#include <cordee/comm/simulated/contention.hpp>
#include <cordee/comm/simulated/critical_path.hpp>
#include <cordee/comm/simulated/posted_side.hpp>
#include <cordee/comm/transport.hpp>
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
      p.sends.push_back(side);
      match(p, m.peer, context);
    }
    for (const recv_op<D>& m : in) {
      side.size = m.bytes.size;
      if constexpr (D::host_memory) side.data = m.bytes.data;
      pair& p = pair_of(side.rank, m.peer, context);
      p.receives.push_back(side);
      match(p, side.rank, context);
    }
  }

  /// Effects: goes on to the next time at which something happens; arrived(send, receive, path) for
  /// each message. Returns whether there was such a time.
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
      if (source % context_count != context || p.sends.empty()) continue;
      const std::pair<double, int> sent{p.sends.front().posted.seconds, source / context_count};
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
        for (const posted_side& s : p.sends)
          if (s.fiber == fiber)
            return {
                concat("rank ", receiver, " to receive ", s.size, " bytes on context ", context),
                static_cast<int>(receiver)};
        for (const posted_side& s : p.receives)
          if (s.fiber == fiber)
            return {concat("rank ", sender, " to send ", s.size, " bytes on context ", context),
                    sender};
      }
    return {"", -1};
  }

 private:
  struct pair {  // one of the two is empty
    std::deque<posted_side> sends, receives;
  };
  struct message {
    posted_side send, receive;
  };

  pair& pair_of(int receiver, int sender, int context) {
    return receivers_[static_cast<std::size_t>(receiver)][sender * context_count + context];
  }

  void match(pair& p, int receiver, int context) {
    if (p.sends.empty() || p.receives.empty()) return;
    const message m{p.sends.front(), p.receives.front()};
    if (m.send.size != m.receive.size)
      throw error(concat("rank ", receiver, " expects ", m.receive.size, " bytes from rank ",
                         m.send.rank, " on context ", context, ", which sends ", m.send.size,
                         ": the ranks disagree on what they exchange", error_context::suffix()));
    p.sends.pop_front();
    p.receives.pop_front();
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
