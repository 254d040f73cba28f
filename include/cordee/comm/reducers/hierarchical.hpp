// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean inside nodes, across them and inside again (Jia et al. 2018).
//
//   binomial trees inside each of g nodes reduce to its first rank;  a ring over the first ranks
//   makes the mean;  the trees broadcast it
//
// 2 ceil(log2 k) + 2(g-1) steps for nodes of k ranks, where a flat ring needs 2(gk-1); 2n(g-1)/g
// numbers leave a node, for any k. The order of a sum depends on the chunk of the ring.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/exact_method.hpp>
#include <cordee/comm/reducers/nodes.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI {

/// Exact mean by trees inside nodes and a ring across them.
template <class Communicator>
struct hierarchical : exact_method<hierarchical<Communicator>, Communicator> {
  /// Which ranks share a node. Range: sizes that add up to the number of ranks, else usage_error.
  nodes node_layout;

  /// Sets `node_layout`, which is checked at its first use.
  explicit hierarchical(Communicator communicator, nodes layout)
      : exact_method<hierarchical, Communicator>{{communicator}}, node_layout(std::move(layout)) {}

  /// Scratch for a child's vector, unless the transport has a fused add.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  /// Number of nodes.
  [[nodiscard]] int chunks(std::size_t) const { return node_layout.count(this->comm.size()); }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("trees inside ", node_layout.starts(this->comm.size()).size() - 1,
                  " nodes, a ring across them, over ", this->comm.size(), " ranks: exact mean");
  }

  /// See exact_method.
  template <class Wire>
  void run(Wire w) const {
    const int p = this->comm.size(), r = this->comm.rank();
    const std::vector<int> starts = node_layout.starts(p);  // (nodes + 1)
    const auto start = [&](int node) { return starts[static_cast<std::size_t>(node)]; };
    const int g = static_cast<int>(starts.size()) - 1;
    const auto after = std::upper_bound(starts.begin(), starts.end(), r) - starts.begin();
    const int node = static_cast<int>(after) - 1;

    const chunk_range message{0, g};
    const detail::comm::binomial_tree inside{r, r - start(node), start(node + 1) - start(node)};
    inside.reduce(w, message);
    if (r == start(node)) {
      const detail::comm::ring_position across{node, g, start((node + g - 1) % g),
                                               start((node + 1) % g)};
      const auto chunk = [](int i) { return chunk_range{i, i + 1}; };
      across.reduce_scatter(w, chunk);
      w.average(chunk(node), p);
      across.all_gather(w, chunk);
    }
    inside.broadcast(w, message);
    w.flush();
  }
};

}  // namespace cordee::inline CORDEE_ABI
