// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Averaging with neighbours: one multiplication by the matrix of a graph.
//
//   x_i <- x_i + sum_j W_ij (x_j - x_i)       over those whom rank i hears in this round
//
// Written with differences: ranks that agree stay as they are to the bit, though the weights are
// rounded, and what one end of a mutual edge gains the other loses. The sum goes in the order of
// the graph's list, so results do not depend on timing.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/reducer.hpp>
#include <cordee/comm/stability.hpp>
#include <cordee/comm/topology.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/series.hpp>
#include <cordee/ops/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// Who hears `rank` in this round.
template <Graph G>
std::vector<int> listeners(const G& graph, int rank, int size, std::int64_t round) {
  std::vector<int> out;
  const auto hears = [&](int peer, int other) {
    const auto& heard = graph.in(peer, size, round);
    for (const edge& e : std::span<const edge>(heard))
      if (e.peer == other) return true;
    return false;
  };
  if constexpr (Mutual<G>) {
    const auto& heard = graph.in(rank, size, round);
    for (const edge& e : std::span<const edge>(heard)) out.push_back(e.peer);
  } else {
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank && hears(peer, rank)) out.push_back(peer);
  }
  return out;
}

}  // namespace detail

template <class Link, Graph G = cycle>
struct gossip {
  using link_type = Link;
  static constexpr agreement offers = agreement::mixing;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;
  G graph{};

  /// What this rank hears from all of its neighbours at once.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    std::size_t most = 0;
    for (int round = 0; round < std::max(1, graph.period(link.size())); ++round)
      most =
          std::max(most, std::span<const edge>(graph.in(link.rank(), link.size(), round)).size());
    return most * n * sizeof(Real);
  }

  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment& now, typename D::stream s) const {
    const auto& heard = graph.in(link.rank(), link.size(), now.round);
    const std::span<const edge> edges = heard;
    const std::size_t n = m.what.size;
    expects(m.scratch.size >= edges.size() * n * sizeof(Real),
            "gossip: the graph has more edges in this round than in those it said it repeats");
    Real* const said = reinterpret_cast<Real*>(m.scratch.data);  // (edges, n)

    series<to<D>> out;
    series<from<D>> in;
    series<double> weights;
    for (const int peer : detail::listeners(graph, link.rank(), link.size(), now.round))
      out.push_back({peer, const_bytes(m.what)});
    for (std::size_t k = 0; k < edges.size(); ++k) {
      in.push_back({edges[k].peer, bytes(span_on<Real, D>{said + k * n, n})});
      weights.push_back(edges[k].weight);
    }
    link.exchange(std::as_const(out).span(), std::as_const(in).span(), s);

    approach(n, static_cast<const Real*>(said), std::as_const(weights).span(), m.what.data, s);
  }

  [[nodiscard]] std::vector<int> hears(const moment& now) const {
    const auto& heard = graph.in(link.rank(), link.size(), now.round);
    std::vector<int> peers;
    for (const edge& e : std::span<const edge>(heard)) peers.push_back(e.peer);
    return peers;
  }

  /// Growth a round of the ranks' disagreement under a rule that moves it so; see stability.hpp.
  [[nodiscard]] double radius(consensus c) const { return stability{graph, link.size()}.radius(c); }

  /// What would let such a rule survive, each a phrase.
  [[nodiscard]] std::vector<std::string> remedies(consensus c) const {
    const stability here{graph, link.size()};
    std::vector<std::string> found;
    if (const double beta = here.largest_momentum(c.nesterov); beta > 0)
      found.push_back(text("a momentum below ", beta));
    if (const double theta = here.largest_theta(c); theta > 0)
      found.push_back(text("lazy{graph, theta} with theta below ", theta));
    const consensus other{c.momentum, !c.nesterov};
    if (const double r = here.radius(other); r < largest_stable_radius)
      found.push_back(text(c.nesterov ? "momentum without Nesterov's form" : "Nesterov's form",
                           ", whose radius is ", r));
    const double dense = stability{symmetric_exponential{}, link.size()}.radius(c);
    const double ring = stability{cycle{}, link.size()}.radius(c);
    if (dense < largest_stable_radius)
      found.push_back(text("a fixed symmetric graph: symmetric_exponential has radius ", dense));
    else if (ring < largest_stable_radius)
      found.push_back(text("a fixed symmetric graph: cycle has radius ", ring));
    return found;
  }

  [[nodiscard]] std::string describe() const {
    const double gap = stability{graph, link.size()}.spectral_gap();
    return text("gossip over ", link.size(), " ranks, ", graph.describe(), ": ",
                std::isnan(gap) ? std::string("spectral gap not known")
                                : text("spectral gap ", gap, " a round"));
  }
};
template <class Link>
gossip(Link) -> gossip<Link>;
template <class Link, Graph G>
gossip(Link, G) -> gossip<Link, G>;

}  // namespace cordee::inline CORDEE_ABI
