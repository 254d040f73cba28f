// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A communicator that counts what one rank sends, and has `exchange` alone: over it, reducers take
// the path of a transport without fused add and native mean.
//
// Rounds are those of the critical path: an exchange ends one round after the latest of this rank
// and the ranks from which it receives had begun (Lamport's clock). For that each message is
// followed by the sender's count, which itself is not counted. The largest count of all ranks is a
// reducer's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

/// What one rank sent.
struct traffic {
  /// Messages and their bytes, and rounds of the critical path.
  std::size_t messages = 0, bytes = 0, rounds = 0;
};

/// A transport that counts the traffic through `comm`.
template <class Communicator>
struct counting_communicator {
  /// As `comm`.
  static constexpr bool blocks_host = Communicator::blocks_host;
  /// As `comm`.
  static constexpr bool concurrent_contexts =
      cordee::detail::comm::has_concurrent_contexts<Communicator>();

  Communicator comm;  ///< The underlying transport.
  /// Counts of this rank over all contexts; must outlive the communicator.
  traffic* sent;

  /// See TransportOn.
  [[nodiscard]] int rank() const { return comm.rank(); }
  /// See TransportOn.
  [[nodiscard]] int size() const { return comm.size(); }
  /// See TransportOn; counts in the same place.
  [[nodiscard]] counting_communicator duplicate(int k) const { return {comm.duplicate(k), sent}; }
  /// As `comm`, if it has abort.
  void abort(const char* why) const { cordee::detail::comm::abort(comm, why); }

  /// Counts the messages and exchanges them, then the peers' rounds.
  template <Device D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    std::atomic_ref(sent->messages) += out.size();  // threads may use two contexts at once
    for (const auto& message : out) std::atomic_ref(sent->bytes) += message.bytes.size;
    comm.exchange(out, in, s);
    count_round(out, in);
  }

 private:
  void count_round(const auto& out, const auto& in) const {
    if (out.empty() && in.empty()) return;
    const std::atomic_ref rounds(sent->rounds);
    std::size_t begun = rounds;
    std::vector<std::size_t> of_peers(in.size());
    std::vector<send_op<cpu>> to;
    std::vector<recv_op<cpu>> from;
    for (const auto& message : out)
      to.push_back({message.peer, bytes(span_on<std::size_t, cpu>{&begun, 1})});
    for (std::size_t k = 0; k < in.size(); ++k)
      from.push_back({in[k].peer, bytes(span_on<std::size_t, cpu>{&of_peers[k], 1})});
    comm.exchange(std::span<const send_op<cpu>>(to), std::span<const recv_op<cpu>>(from),
                  cpu::stream{});
    for (const std::size_t peer : of_peers) begun = std::max(begun, peer);
    for (std::size_t now = rounds; now < begun + 1;)
      if (rounds.compare_exchange_weak(now, begun + 1)) break;
  }
};
template <class Communicator>
counting_communicator(Communicator, traffic*) -> counting_communicator<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
