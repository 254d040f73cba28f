// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Small exact collectives for flags, losses, counts, statistics and initial weights, with any
// reducer.
//
// They use agreement_context, separate from the reducer's messages, and leave the same bits on
// every rank. All ranks of the communicator must call them in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

/// How allreduce_host combines the numbers of two ranks. If one is NaN, so is the minimum or
/// maximum.
enum class reduce_op {
  sum,  ///< Added in the order of ranks.
  min,  ///< The smallest.
  max   ///< The largest.
};

namespace detail::comm {

/// The ranks first .. first + size - 1 of a communicator.
struct rank_range {
  int first = 0, size = 0;
};

/// The range of `rank` where every `size` consecutive ranks are one; the last may be smaller.
constexpr rank_range range_of(int rank, int size, int ranks) {
  const int first = rank / size * size;
  return {first, std::min(size, ranks - first)};
}

inline double combine(double a, double b, reduce_op op) {
  if (op == reduce_op::sum) return a + b;
  if (core::isnan(a)) return a;
  return op == reduce_op::min ? (a < b ? a : b) : (a > b ? a : b);
}

/// Returns the `values` of each of these ranks, (ranks, n), on all of them; n is the same there.
template <class Communicator>
[[gnu::cold]] std::vector<double> gather_host(const Communicator& comm, rank_range ranks,
                                              std::span<const double> values) {
  const std::size_t n = values.size();
  std::vector<double> rows(n * static_cast<std::size_t>(ranks.size));
  const auto row = [&](int rank) {
    return span_on<double, cpu>{rows.data() + n * static_cast<std::size_t>(rank - ranks.first), n};
  };
  std::copy(values.begin(), values.end(), row(comm.rank()).begin());
  detail::core::pod_vector<send_op<cpu>> out;
  detail::core::pod_vector<recv_op<cpu>> in;
  for (int peer = ranks.first; peer < ranks.first + ranks.size; ++peer) {
    if (peer == comm.rank()) continue;
    out.push_back({peer, bytes(row(comm.rank()))});
    in.push_back({peer, bytes(row(peer))});
  }
  comm.duplicate(agreement_context)
      .exchange(std::as_const(out).span(), std::as_const(in).span(), cpu::stream{});
  return rows;
}
/// The same of all ranks.
template <class Communicator>
std::vector<double> gather_host(const Communicator& comm, std::span<const double> values) {
  return gather_host(comm, {0, comm.size()}, values);
}

/// Effects: `values`, as many on each of these ranks, become their sum, minimum or maximum over
/// them, combined in their order. Collective over these ranks.
template <class Communicator>
void allreduce_host(const Communicator& comm, rank_range ranks, std::span<double> values,
                    reduce_op op) {
  if constexpr (!single_rank<Communicator>) {
    if (ranks.size == 1) return;
    const std::size_t n = values.size();
    const std::vector<double> rows = gather_host(comm, ranks, values);
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = rows[i];
      for (std::size_t k = i + n; k < rows.size(); k += n)
        values[i] = combine(values[i], rows[k], op);
    }
  }
}

}  // namespace detail::comm

/// Replaces `values`, equally many on each rank, by their sum, minimum or maximum over ranks,
/// combined in rank order.
template <class Communicator>
void allreduce_host(const Communicator& comm, std::span<double> values, reduce_op op) {
  detail::comm::allreduce_host(comm, {0, comm.size()}, values, op);
}

namespace detail::comm {

/// Returns the largest of the ranks' numbers, on all of them; NaN if one is NaN.
template <class Communicator>
double max_over_ranks(const Communicator& comm, double x) {
  allreduce_host(comm, {&x, 1}, reduce_op::max);
  return x;
}

/// Effects: x, as long on each rank, becomes its exact mean over ranks.
template <class Communicator, class Real, Device D>
void allreduce_mean(const Communicator& comm, const D& device, span_on<Real, D> x,
                    typename D::stream s) {
  if constexpr (!single_rank<Communicator>) {
    const ring reducer{comm.duplicate(agreement_context)};
    buffer<std::byte, D> scratch(device, reducer.template scratch<Real>(x.size));
    reducer.mix(bucket_view<Real, D, 0>{nullptr, x, {}, scratch.span()}, step_info{}, s);
  }
}

/// Effects: x becomes rank 0's x on every rank.
template <class Communicator, class Real, Device D>
[[gnu::cold]] void broadcast(const Communicator& comm, span_on<Real, D> x, typename D::stream s) {
  if constexpr (!single_rank<Communicator>) {
    detail::core::pod_vector<send_op<D>> out;
    detail::core::pod_vector<recv_op<D>> in;
    if (comm.rank() != 0) in.push_back({0, bytes(x)});
    for (int peer = 1; comm.rank() == 0 && peer < comm.size(); ++peer)
      out.push_back({peer, bytes(x)});
    comm.duplicate(agreement_context)
        .exchange(std::as_const(out).span(), std::as_const(in).span(), s);
  }
}

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
