// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The communicator of a run of one rank (MPI_COMM_SELF).
#pragma once

#include <cstddef>
#include <span>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

/// Rank 0 of 1, which may send to itself.
struct self_comm {
  static constexpr bool blocks_host = false;  ///< See TransportOn.

  /// 0, at compile time.
  [[nodiscard]] static constexpr int rank() { return 0; }
  /// 1, at compile time, so that code for exchanges is left out.
  [[nodiscard]] static constexpr int size() { return 1; }
  /// Itself: there is one context.
  [[nodiscard]] self_comm duplicate(int) const { return {}; }

  /// Leaves the numbers as they are.
  template <class Real, Device D>
  void mean(span_on<Real, D>, typename D::stream) const {}
  /// All of n numbers are this rank's.
  [[nodiscard]] static detail::comm::number_range own_range(std::size_t n) { return {0, n}; }
  /// Leaves the numbers as they are.
  template <class Real, Device D>
  void reduce_scatter_mean(span_on<Real, D>, typename D::stream) const {}
  /// Leaves the numbers as they are.
  template <class Real, Device D>
  void all_gather(span_on<Real, D>, typename D::stream) const {}

  /// Copies the k-th message sent into the k-th received.
  /// @throws usage_error unless both lists have equally many messages, of equal sizes, with rank 0
  /// as peer.
  template <Device D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    expects(out.size() == in.size(), "self_comm: every message must be received");
    for (std::size_t i = 0; i < out.size(); ++i) {
      expects(out[i].peer == 0 && in[i].peer == 0, "self_comm: no such peer: the only rank is 0");
      expects(out[i].bytes.size == in[i].bytes.size,
              "self_comm: a message's size differs from its receive buffer's");
      if constexpr (D::host_memory)
        D{}.copy(in[i].bytes.data, out[i].bytes.data, in[i].bytes.size, s);
      else  // a default-constructed device would choose a GPU
        s.copy(in[i].bytes.data, out[i].bytes.data, in[i].bytes.size);
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI
