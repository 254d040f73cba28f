// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean by the transport's own collective (ncclAllReduce, one shot over shared memory between
// threads).
//
//   x <- (x_0 + x_1 + ... + x_{p-1}) / p, in an order that the transport chooses
//
// `sharded` runs the transport's reduce-scatter and all-gather separately, if it has them
// (ncclReduceScatter and ncclAllGather); their sums may be in another order than the mean's.
#pragma once

#include <string>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI {

/// Exact mean by the transport's own collective.
template <class Communicator>
struct native : reducer_base<Communicator> {
  /// The mean, with the same bits on every rank.
  static constexpr agreement offers = agreement::exact;
  /// Whether the transport has both halves of its mean, for `sharded{native{comm}}`.
  static constexpr bool can_shard = detail::comm::HasOwnRange<Communicator>;

  /// 0: the transport has its own memory.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t) const {
    return 0;
  }
  /// Calls the transport's mean(); a transport without one does not compile.
  template <class Real, Device D>
    requires detail::comm::NativeMeanOn<Communicator, Real, D>
  void mix(bucket_view<Real, D, 0> m, const step_info&, typename D::stream s) const {
    this->comm.mean(m.values, s);
  }
  /// mix() as work of the stream: the host does not wait for the device.
  template <class Real, Device D>
    requires detail::comm::EnqueuedMeanOn<Communicator, Real, D>
  void enqueue(bucket_view<Real, D, 0> m, const step_info&, typename D::stream s) const {
    this->comm.enqueue_mean(m.values, s);
  }

  /// The numbers of an n-number message whose mean reduce_scatter() leaves here: the transport's
  /// choice.
  [[nodiscard]] detail::comm::number_range own_range(std::size_t n) const
    requires can_shard
  {
    return this->comm.own_range(n);
  }
  /// This rank's range <- the mean.
  template <class Real, Device D>
    requires detail::comm::NativeHalvesOn<Communicator, Real, D>
  void reduce_scatter(bucket_view<Real, D, 0> m, typename D::stream s) const {
    this->comm.reduce_scatter_mean(m.values, s);
  }
  /// x <- every rank's range of it.
  template <class Real, Device D>
    requires detail::comm::NativeHalvesOn<Communicator, Real, D>
  void all_gather(span_on<Real, D> x, typename D::stream s) const {
    this->comm.all_gather(x, s);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("the transport's own mean over ", this->comm.size(), " ranks: exact mean");
  }
};
template <class Communicator>
native(Communicator) -> native<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
