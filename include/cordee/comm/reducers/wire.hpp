// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The hops of an exact method. A method (ring, tree, ...) decides which chunks a rank sends to
// which peer; a wire decides how a chunk is sent: here unchanged, in encoded_wire.hpp in a narrower
// precision. Each method is written once, for both.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <cordee/comm/transports/number_range.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/ops/cpu/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

/// Chunks first .. last-1 of a message.
struct chunk_range {
  /// First chunk, and one past the last.
  int first, last;
};

/// Peer for a direction that a hop does not use.
inline constexpr int no_peer = -1;

namespace detail::comm {

/// One message to `next` and one from `previous`; neither where the peer is no_peer.
template <Device D, class Exchange>
void hop(int next, span_on<const std::byte, D> outgoing, int previous,
         span_on<std::byte, D> incoming, const Exchange& exchange) {
  const send_op<D> send{next, outgoing};
  const recv_op<D> recv{previous, incoming};
  exchange(std::span<const send_op<D>>(&send, next == no_peer ? 0 : 1),
           std::span<const recv_op<D>>(&recv, previous == no_peer ? 0 : 1));
}

/// Sends the numbers themselves. A received chunk stays in the scratch until its sum is read: the
/// last addition and the division are one pass. Chunks begin at multiples of `Unit` numbers.
template <class Communicator, class Real, Device D, std::size_t Unit = 1>
class plain_wire {
 public:
  plain_wire(const Communicator& comm, span_on<Real, D> values, span_on<std::byte, D> scratch,
             int count, typename D::stream s)
      : comm_(comm), values_(values), scratch_(scratch), count_(count), stream_(s) {}

  /// Chunks of the message.
  [[nodiscard]] int count() const { return count_; }

  /// Sends the partial sum of `sent` to `next`; receives one from `previous` and adds it to `sum`,
  /// at the latest in the next call. The last parameter, the number of ranks that hold the same
  /// partial sum, is for a wire that rounds: they share its loss.
  void add(int next, chunk_range sent, int previous, chunk_range sum, int = 1) {
    add_pending();
    const auto outgoing = values_of(sent), total = values_of(sum);
    if constexpr (FusedAddOn<Communicator, Real, D>) {
      // A peer must not read numbers while the transport adds to them.
      const bool overlap =
          next != no_peer && previous != no_peer && sent.first < sum.last && sum.first < sent.last;
      if (!overlap)
        return hop<D>(next, bytes(outgoing), previous, bytes(total), [&](auto out, auto in) {
          comm_.template exchange_add<Real>(out, in, stream_);
        });
    }
    if (previous != no_peer) pending_sum_ = total;
    exchange(next, outgoing, previous, {received(), pending_sum_.size});
  }

  /// Requires: `own` is the sum over all ranks. Effects: it becomes their mean.
  void average(chunk_range own, int ranks, int = 1) {
    const auto p = static_cast<Real>(ranks);
    const auto sum = values_of(own);
    // for a GPU by argument-dependent lookup: ops/gpu/reduce.hpp
    if (pending_sum_ == sum) {
      add_then_divide(sum.size, p, received(), sum.data, stream_);
      pending_sum_ = {};
    } else {
      add_pending();
      divide(sum.size, p, sum.data, stream_);
    }
  }

  /// Sends the mean of `sent` to `next` and receives that of `target` from `previous`.
  void pass(int next, chunk_range sent, int previous, chunk_range target) {
    add_pending();
    exchange(next, values_of(sent), previous, values_of(target));
  }

  /// After the last hop: every chunk holds its mean.
  void flush() { add_pending(); }

 private:
  void add_pending() {
    if (pending_sum_.empty()) return;
    // for a GPU by argument-dependent lookup: ops/gpu/elementwise.hpp
    using cordee::detail::ops::add;
    add(pending_sum_.size, received(), pending_sum_.data, stream_);
    pending_sum_ = {};
  }
  [[nodiscard]] Real* received() const { return reinterpret_cast<Real*>(scratch_.data); }
  [[nodiscard]] span_on<Real, D> values_of(chunk_range c) const {
    const std::size_t first = chunk_start(values_.size / Unit, c.first, count_) * Unit;
    return values_.subspan(first, chunk_start(values_.size / Unit, c.last, count_) * Unit - first);
  }
  void exchange(int next, span_on<Real, D> outgoing, int previous,
                span_on<Real, D> incoming) const {
    hop<D>(next, bytes(outgoing), previous, bytes(incoming),
           [&](auto out, auto in) { comm_.exchange(out, in, stream_); });
  }

  const Communicator& comm_;
  span_on<Real, D> values_;
  span_on<std::byte, D> scratch_;
  int count_;
  typename D::stream stream_;
  span_on<Real, D> pending_sum_{};  // to which the received numbers have still to be added
};

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
