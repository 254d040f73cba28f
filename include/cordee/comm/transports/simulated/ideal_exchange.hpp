// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Messages over an ideal network.
//
//   send       occupies the sender's port from when it is posted and the port is free
//   receive    occupies the receiver's port from when it is posted, the port is free and the send
//              has begun; those of one exchange in the order in which their sends began
//   each for latency + n / bandwidth; a rank's message to itself takes no time and no port
//
// So times follow from the order of each rank's operations alone, not from that of the fibers: one
// fiber runs until it waits for a message that no other has sent yet. Where a rank has several
// fibers, its operations are in the order of time: each waits for its turn.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/transports/simulated/channel.hpp>
#include <cordee/comm/transports/simulated/critical_path.hpp>
#include <cordee/comm/transports/simulated/posted_side.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class ideal_exchange {
 public:
  using observer = std::function<void(const simulated_transfer&)>;

  ideal_exchange(const ideal_network& network, int ranks, observer on_transfer)
      : network_(network),
        on_transfer_(std::move(on_transfer)),
        ports_(static_cast<std::size_t>(ranks)) {}

  /// wait() blocks the fiber until wake(fiber), turn(time) until no other one uses a port of the
  /// rank before that time. Returns when the exchange ends, and the rounds that had ended on this
  /// rank or on one that it received from.
  template <Device D, class Wait, class Wake, class Turn>
  std::pair<critical_path, std::uint64_t> exchange(const posted_side& side, int context,
                                                   std::span<const send_op<D>> out,
                                                   std::span<const recv_op<D>> in, const Wait& wait,
                                                   const Wake& wake, const Turn& turn) {
    port& own = port_of(side.rank);
    turn(side.posted.seconds);
    critical_path end = side.posted;
    for (const send_op<D>& m : out) {
      const bool own_message = m.peer == side.rank;  // which uses no port
      simulated_message sent{own_message ? side.posted : later(side.posted, own.out_free),
                             side.rounds, m.bytes.size};
      const critical_path sent_at =
          after_message(sent.begin, sent.size, network_.between(side.rank, m.peer));
      if (!own_message) own.out_free = sent_at;
      end = later(end, sent_at);
      if constexpr (D::host_memory) sent.copy_from(m.bytes.data);
      simulated_channel& channel = sent_to(m.peer, side.rank, context);
      channel.push(std::move(sent));
      if (channel.receiver != simulated_channel::no_fiber)
        wake(std::exchange(channel.receiver, simulated_channel::no_fiber));
    }
    std::uint64_t rounds = side.rounds;
    std::vector<arrival>& arrivals = own.arrivals[static_cast<std::size_t>(context)];
    arrivals.clear();
    for (const recv_op<D>& m : in) {
      simulated_channel& channel = received_from(m.peer, side.rank, context);
      while (channel.empty()) {
        channel.receiver = side.fiber;
        channel.awaited_size = m.bytes.size;
        wait();
      }
      if (channel.front().size != m.bytes.size)
        throw error(concat("rank ", side.rank, " expects ", m.bytes.size, " bytes from rank ",
                           m.peer, " on context ", context, ", which sends ", channel.front().size,
                           ": the ranks disagree on what they exchange", error_context::suffix()));
      const simulated_message received = channel.pop();
      if constexpr (D::host_memory) received.copy_to(m.bytes.data);
      rounds = std::max(rounds, received.rounds);
      arrivals.push_back({received.begin, received.size, m.peer});
    }
    if (in.size() > 1)
      std::stable_sort(arrivals.begin(), arrivals.end(), [](const arrival& a, const arrival& b) {
        return a.begin.seconds < b.begin.seconds;
      });
    for (const arrival& a : arrivals) {
      const bool own_message = a.peer == side.rank;
      turn(std::max(side.posted.seconds, a.begin.seconds));
      const critical_path begin =
          later(own_message ? side.posted : later(side.posted, own.in_free), a.begin);
      const critical_path arrived =
          after_message(begin, a.size, network_.between(a.peer, side.rank));
      if (!own_message) own.in_free = arrived;
      if (on_transfer_) on_transfer_({a.peer, side.rank, a.size, begin.seconds, arrived.seconds});
      end = later(end, arrived);
    }
    return {end, rounds};
  }

  /// When the first message that is pending at a rank on a context was sent, and its sender; -1 if
  /// none is.
  [[nodiscard]] std::pair<double, int> first_sent(int rank, int context) const {
    std::pair<double, int> first{0, -1};
    for (const auto& [source, channel] : ports_[static_cast<std::size_t>(rank)].channels) {
      if (source % context_count != context || channel.empty()) continue;
      const std::pair<double, int> sent{channel.front().begin.seconds, source / context_count};
      if (first.second < 0 || sent < first) first = sent;
    }
    return first;
  }
  /// What a fiber waits for, "rank 1 to send 8 bytes on context 0", and that rank.
  [[nodiscard, gnu::cold]] std::pair<std::string, int> unmatched(std::size_t fiber) const {
    for (const port& p : ports_)
      for (const auto& [source, channel] : p.channels)
        if (channel.receiver == fiber)
          return {concat("rank ", source / context_count, " to send ", channel.awaited_size,
                         " bytes on context ", source % context_count),
                  source / context_count};
    return {"", -1};
  }
  /// A message that was sent and never received; empty if there is none.
  [[nodiscard]] std::string unreceived() const {
    for (std::size_t rank = 0; rank < ports_.size(); ++rank)
      for (const auto& [source, channel] : ports_[rank].channels)
        if (!channel.empty())
          return concat("rank ", source / context_count, " sent ", channel.front().size,
                        " bytes to rank ", rank, " on context ", source % context_count,
                        ", which has left the run without receiving them: every rank must make "
                        "the same exchanges");
    return {};
  }

 private:
  struct arrival {
    critical_path begin;
    std::size_t size;
    int peer;
  };
  struct port {
    critical_path out_free{}, in_free{};
    std::array<std::vector<arrival>, context_count> arrivals{};  // of the exchange on each context
    std::unordered_map<int, simulated_channel> channels{};       // by the source
    // The last ones used: most methods use few.
    int last_source = -1, last_target = -1;
    simulated_channel *last_received = nullptr, *last_sent = nullptr;
  };

  port& port_of(int rank) { return ports_[static_cast<std::size_t>(rank)]; }
  simulated_channel& sent_to(int peer, int rank, int context) {
    port& own = port_of(rank);
    if (const int target = peer * context_count + context; own.last_target != target) {
      own.last_target = target;
      own.last_sent = &port_of(peer).channels[rank * context_count + context];
    }
    return *own.last_sent;
  }
  simulated_channel& received_from(int peer, int rank, int context) {
    port& own = port_of(rank);
    if (const int source = peer * context_count + context; own.last_source != source) {
      own.last_source = source;
      own.last_received = &own.channels[source];
    }
    return *own.last_received;
  }

  const ideal_network network_;
  const observer on_transfer_;
  std::vector<port> ports_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
