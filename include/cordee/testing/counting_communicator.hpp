// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A communicator that counts what one rank sends, and has `exchange` alone: over it, reducers take
// the path of a transport without fused add and native mean.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include <cordee/comm/transport.hpp>

namespace cordee::inline CORDEE_ABI {

struct traffic {
  std::size_t messages = 0, bytes = 0;
};

template <class Communicator>
struct counting_communicator {
  static constexpr bool blocks_host = Communicator::blocks_host;

  Communicator comm;
  traffic* sent;  // by this rank, over all contexts; must outlive the communicator

  [[nodiscard]] int rank() const { return comm.rank(); }
  [[nodiscard]] int size() const { return comm.size(); }
  [[nodiscard]] counting_communicator duplicate(int k) const { return {comm.duplicate(k), sent}; }
  void abort(const char* why) const { cordee::detail::comm::abort(comm, why); }

  template <Device D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    std::atomic_ref(sent->messages) += out.size();  // threads may use two contexts at once
    for (const auto& message : out) std::atomic_ref(sent->bytes) += message.bytes.size;
    comm.exchange(out, in, s);
  }
};
template <class Communicator>
counting_communicator(Communicator, traffic*) -> counting_communicator<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
