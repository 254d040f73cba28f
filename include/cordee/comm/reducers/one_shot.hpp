// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean in one step: every rank sends its whole vector to all others.
//
//   x -> all other ranks;  x <- (x_0 + x_1 + ... + x_{p-1}) / p on each
//
// p-1 messages and n(p-1) numbers a rank in a single step: for short messages between few ranks.
// hybrid{one_shot{comm}, two_shot{comm}} uses two_shot for longer ones. Sums are in rank order, so
// results do not depend on bucket sizes.
#pragma once

#include <string>
#include <utility>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/ops/cpu/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// Sends outgoing(k) to every other rank k and receives incoming(k) from it, in one exchange that
/// begins with the next rank, so that peers are not all sent to in the same order.
template <Device D, class Communicator, class Outgoing, class Incoming>
void exchange_with_all(const Communicator& comm, const Outgoing& outgoing, const Incoming& incoming,
                       typename D::stream s) {
  const int p = comm.size();
  detail::core::pod_vector<send_op<D>> out;
  detail::core::pod_vector<recv_op<D>> in;
  for (int k = 1; k < p; ++k) {
    const int peer = (comm.rank() + k) % p;
    out.push_back({peer, bytes(outgoing(peer))});
    in.push_back({peer, bytes(incoming(peer))});
  }
  comm.exchange(std::as_const(out).span(), std::as_const(in).span(), s);
}

/// The vectors that the ranks have sent, (ranks, n).
template <class Real, Device D>
struct rank_rows {
  Real* data;
  std::size_t n;
  int ranks;

  [[nodiscard]] span_on<Real, D> operator()(int rank) const {
    return {data + n * static_cast<std::size_t>(rank), n};
  }
  /// Requires: row `own` is free. Effects: x becomes the mean of the other rows and itself, added
  /// in the order of ranks.
  void mean(int own, Real* x, typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/{elementwise,filter_layout,reduce}.hpp
    convert(n, x, (*this)(own).data, s);
    for (int k = 1; k < ranks - 1; ++k) add(n, (*this)(k).data, data, s);
    add_then_divide(n, static_cast<Real>(ranks), (*this)(ranks - 1).data, data, s);
    convert(n, data, x, s);
  }
};

}  // namespace detail::comm

/// Exact mean: every rank sends its whole vector to all others.
template <class Communicator>
struct one_shot : reducer_base<Communicator> {
  /// The mean, with the same bits on every rank.
  static constexpr agreement offers = agreement::exact;

  /// Scratch for every rank's vector.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * static_cast<std::size_t>(this->comm.size()) * sizeof(Real);
  }

  /// Adds in rank order, on every rank.
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> m, const step_info&, typename D::stream s) const {
    const int p = this->comm.size();
    if (p == 1) return;
    const detail::comm::rank_rows<Real, D> rows{reinterpret_cast<Real*>(m.scratch.data),
                                                m.values.size, p};  // (p, n)
    detail::comm::exchange_with_all<D>(
        this->comm, [&](int) { return m.values; }, rows, s);
    rows.mean(this->comm.rank(), m.values.data, s);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("one-shot over ", this->comm.size(), " ranks: exact mean");
  }
};
template <class Communicator>
one_shot(Communicator) -> one_shot<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
