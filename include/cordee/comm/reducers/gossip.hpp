// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Averaging with neighbours: one multiplication by the matrix W of a topology.
//
//   x_i <- x_i + sum_j W_ij (x_j - x_i)       over the ranks j that rank i receives from
//
// Differences preserve the bits of ranks that agree, although weights are rounded, and over a
// symmetric edge one end gains what the other loses. Terms are added in the order of the topology's
// list, so results do not depend on timing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/topologies/stability.hpp>
#include <cordee/comm/topologies/topologies.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/ops/cpu/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {

/// The ranks that `rank` sends to in this round.
template <Topology T>
std::vector<int> destinations(const T& topology, int rank, int size, std::int64_t round) {
  std::vector<int> peers;
  const auto is_source = [&](int source, int peer) {
    const auto& edges = topology.in_edges(peer, size, round);
    for (const topologies::edge& e : std::span<const topologies::edge>(edges))
      if (e.peer == source) return true;
    return false;
  };
  if constexpr (SymmetricTopology<T>) {
    const auto& edges = topology.in_edges(rank, size, round);
    for (const topologies::edge& e : std::span<const topologies::edge>(edges))
      peers.push_back(e.peer);
  } else {
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank && is_source(rank, peer)) peers.push_back(peer);
  }
  return peers;
}

}  // namespace detail::comm

/// Mixing with the neighbours in a topology, once a round.
template <class Communicator, Topology T = topologies::ring>
struct gossip {
  using communicator_type = Communicator;                 ///< See ReducerOn.
  static constexpr agreement offers = agreement::mixing;  ///< Ranks converge, but differ.
  static constexpr bool lossless = true;                  ///< See ReducerOn.
  static constexpr int slots = 0;                         ///< See ReducerOn.

  Communicator comm;  ///< The ranks that mix.
  T topology{};       ///< Which ranks mix, with which weights; the same on every rank.

  /// Scratch for all neighbours' vectors, in the round with the most.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    std::size_t most = 0;
    for (int round = 0; round < std::max(1, topology.period(comm.size())); ++round) {
      const auto& edges = topology.in_edges(comm.rank(), comm.size(), round);
      most = std::max(most, std::span<const topologies::edge>(edges).size());
    }
    return most * n * sizeof(Real);
  }

  /// Exchanges the bucket with the neighbours of `info.round`.
  /// @throws usage_error for a round with more edges than any within the topology's period.
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> m, const step_info& info, typename D::stream s) const {
    const auto& in_edges = topology.in_edges(comm.rank(), comm.size(), info.round);
    const std::span<const topologies::edge> edges = in_edges;
    const std::size_t n = m.values.size;
    expects(m.scratch.size >= edges.size() * n * sizeof(Real),
            "gossip: the topology has more edges in this round than in any of its period");
    Real* const received = reinterpret_cast<Real*>(m.scratch.data);  // (edges, n)

    detail::core::pod_vector<send_op<D>> out;
    detail::core::pod_vector<recv_op<D>> in;
    detail::core::pod_vector<double> weights;
    for (const int peer :
         detail::comm::destinations(topology, comm.rank(), comm.size(), info.round))
      out.push_back({peer, bytes(m.values)});
    for (std::size_t k = 0; k < edges.size(); ++k) {
      in.push_back({edges[k].peer, bytes(span_on<Real, D>{received + k * n, n})});
      weights.push_back(edges[k].weight);
    }
    comm.exchange(std::as_const(out).span(), std::as_const(in).span(), s);

    // for a GPU by argument-dependent lookup: ops/gpu/reduce.hpp
    mix_neighbors(n, static_cast<const Real*>(received), std::as_const(weights).span(),
                  m.values.data, s);
  }

  /// The neighbours of `info.round`.
  [[nodiscard]] std::vector<int> sources(const step_info& info) const {
    const auto& edges = topology.in_edges(comm.rank(), comm.size(), info.round);
    std::vector<int> peers;
    for (const topologies::edge& e : std::span<const topologies::edge>(edges))
      peers.push_back(e.peer);
    return peers;
  }

  /// Growth of the disagreement between ranks in a round under this momentum; see
  /// comm/topologies/stability.hpp.
  [[nodiscard]] double spectral_radius(momentum_form form) const {
    return detail::comm::stability{topology, comm.size()}.spectral_radius(form);
  }

  /// Phrases for a message: momenta, thetas, forms and topologies that would be stable.
  [[nodiscard]] std::vector<std::string> remedies(momentum_form form) const {
    const detail::comm::stability current{topology, comm.size()};
    std::vector<std::string> phrases;
    if (const double beta = current.largest_momentum(form); beta > 0)
      phrases.push_back(concat("a momentum below ", beta));
    if (const double theta = current.largest_theta(form); theta > 0)
      phrases.push_back(concat("topologies::lazy{topology, theta} with theta below ", theta));
    momentum_form other = form;
    other.nesterov = !form.nesterov;
    if (const double r = current.spectral_radius(other); r < detail::core::largest_stable_radius)
      phrases.push_back(
          concat(form.nesterov ? "momentum without Nesterov's form" : "Nesterov's form",
                 ", whose radius is ", r));
    const double dense =
        detail::comm::stability{topologies::symmetric_exponential{}, comm.size()}.spectral_radius(
            form);
    const double ring =
        detail::comm::stability{topologies::ring{}, comm.size()}.spectral_radius(form);
    if (dense < detail::core::largest_stable_radius)
      phrases.push_back(concat("topologies::symmetric_exponential, whose radius is ", dense));
    else if (ring < detail::core::largest_stable_radius)
      phrases.push_back(concat("topologies::ring, whose radius is ", ring));
    return phrases;
  }

  /// One line for logs, with the spectral gap.
  [[nodiscard]] std::string describe() const {
    const double gap = detail::comm::stability{topology, comm.size()}.spectral_gap();
    return concat("gossip over ", comm.size(), " ranks, ", topology.describe(), ": ",
                  detail::core::isnan(gap) ? std::string("spectral gap not known")
                                           : concat("spectral gap ", gap, " a round"));
  }
};
template <class Communicator>
gossip(Communicator) -> gossip<Communicator>;
template <class Communicator, Topology T>
gossip(Communicator, T) -> gossip<Communicator, T>;

}  // namespace cordee::inline CORDEE_ABI
