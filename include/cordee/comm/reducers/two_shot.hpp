// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean in two steps, in which every rank sends to all others (Thakur, Rabenseifner and Gropp
// 2005): a reduce-scatter and an all-gather without a ring.
//
//   chunk k of x -> rank k;  rank r: y <- (chunk r of x_0 + ... + chunk r of x_{p-1}) / p
//   y -> all other ranks
//
// 2(p-1) messages and 2n(p-1)/p numbers a rank, as in a ring, but in two steps instead of 2(p-1).
// The order of a sum is that of the ranks, so results are the same across bucket sizes.
#pragma once

#include <string>

#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI {

/// Exact mean of chunks that every rank sends to all others.
template <class Communicator>
struct two_shot : reducer_base<Communicator> {
  /// The mean, with the same bits on every rank.
  static constexpr agreement offers = agreement::exact;

  /// Every rank's numbers of this rank's chunk, of n / p + 1 numbers at most.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return (n + static_cast<std::size_t>(this->comm.size())) * sizeof(Real);
  }

  /// Adds in the order of ranks, each chunk on the rank of its number.
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> m, const step_info&, typename D::stream s) const {
    const int p = this->comm.size(), r = this->comm.rank();
    if (p == 1) return;
    const auto chunk = [&](int k) {
      const std::size_t first = detail::comm::chunk_start(m.values.size, k, p);
      return m.values.subspan(first, detail::comm::chunk_start(m.values.size, k + 1, p) - first);
    };
    const span_on<Real, D> own = chunk(r);
    const detail::comm::rank_rows<Real, D> rows{reinterpret_cast<Real*>(m.scratch.data), own.size,
                                                p};  // (p, n / p)
    detail::comm::exchange_with_all<D>(this->comm, chunk, rows, s);
    rows.mean(r, own.data, s);
    detail::comm::exchange_with_all<D>(
        this->comm, [&](int) { return own; }, chunk, s);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("two-shot over ", this->comm.size(), " ranks: exact mean");
  }
};
template <class Communicator>
two_shot(Communicator) -> two_shot<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
