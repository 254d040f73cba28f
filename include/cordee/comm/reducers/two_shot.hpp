// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean in two steps, in each of which every rank sends to all others (Thakur, Rabenseifner
// and Gropp 2005): a reduce-scatter and an all-gather without a ring.
//
//   chunk k of x -> rank k;  rank r: y <- (chunk r of x_0 + ... + chunk r of x_{p-1}) / p
//   y -> all other ranks
//
// 2(p-1) messages and 2n(p-1)/p numbers a rank, as in a ring, but in two steps instead of 2(p-1).
// Sums are in rank order, so results do not depend on bucket sizes.
#pragma once

#include <string>

#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI {

/// Exact mean: every rank reduces one chunk and sends the result to all others.
template <class Communicator>
struct two_shot : reducer_base<Communicator> {
  /// The mean, with the same bits on every rank.
  static constexpr agreement offers = agreement::exact;
  static constexpr bool can_shard = true;  ///< See reducer.hpp.

  /// Scratch for all ranks' numbers of this rank's chunk, at most n / p + 1 each.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return (n + static_cast<std::size_t>(this->comm.size())) * sizeof(Real);
  }

  /// Adds in rank order; rank k reduces chunk k.
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> m, const step_info&, typename D::stream s) const {
    if (this->comm.size() == 1) return;
    reduce_scatter(m, s, 1);
    all_gather(m.values, s, 1);
  }

  /// The numbers of an n-number message that all_gather() sends, in chunks of whole units.
  [[nodiscard]] detail::comm::number_range own_range(
      std::size_t n, std::size_t unit = detail::comm::shard_unit) const {
    return range_of(n, this->comm.rank(), unit);
  }
  /// This rank's range <- the mean.
  template <class Real, Device D>
  void reduce_scatter(bucket_view<Real, D, 0> m, typename D::stream s,
                      std::size_t unit = detail::comm::shard_unit) const {
    const int p = this->comm.size(), r = this->comm.rank();
    const auto chunk = [&](int k) { return chunk_of(m.values, k, unit); };
    const span_on<Real, D> own = chunk(r);
    const detail::comm::rank_rows<Real, D> rows{reinterpret_cast<Real*>(m.scratch.data), own.size,
                                                p};  // (p, n / p)
    detail::comm::exchange_with_all<D>(this->comm, chunk, rows, s);
    rows.mean(r, own.data, s);
  }
  /// x <- every rank's range of it.
  template <class Real, Device D>
  void all_gather(span_on<Real, D> x, typename D::stream s,
                  std::size_t unit = detail::comm::shard_unit) const {
    const span_on<Real, D> own = chunk_of(x, this->comm.rank(), unit);
    detail::comm::exchange_with_all<D>(
        this->comm, [&](int) { return own; }, [&](int k) { return chunk_of(x, k, unit); }, s);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("two-shot over ", this->comm.size(), " ranks: exact mean");
  }

 private:
  [[nodiscard]] detail::comm::number_range range_of(std::size_t n, int rank,
                                                    std::size_t unit) const {
    const int p = this->comm.size();
    return {detail::comm::chunk_start(n / unit, rank, p) * unit,
            detail::comm::chunk_start(n / unit, rank + 1, p) * unit};
  }
  template <class Span>
  [[nodiscard]] Span chunk_of(Span x, int rank, std::size_t unit) const {
    const detail::comm::number_range range = range_of(x.size, rank, unit);
    return x.subspan(range.begin, range.size());
  }
};
template <class Communicator>
two_shot(Communicator) -> two_shot<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
