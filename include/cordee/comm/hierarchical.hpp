// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean inside nodes, across them and inside again (Jia et al. 2018).
//
//   a binomial tree inside each of g nodes adds to its first rank;  a ring over the first ranks
//   makes the mean;  the trees hand it down
//
// 2 ceil(log2 k) + 2(g-1) steps for nodes of k ranks, where a flat ring takes 2(gk-1); what leaves
// a node is 2n(g-1)/g bytes, whatever k. The order of a sum depends on the chunk of the ring.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <cordee/comm/exact_method.hpp>
#include <cordee/comm/nodes.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {
template <class Link>
struct link_of_nodes {
  using link_type = Link;
  Link link;
  nodes where;
};
}  // namespace detail

template <class Link>
struct hierarchical : exact_method<hierarchical<Link>, detail::link_of_nodes<Link>> {
  /// A child's vector, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  [[nodiscard]] int parts(std::size_t) const { return this->where.count(this->link.size()); }

  [[nodiscard]] std::string describe() const {
    return text("trees inside ", this->where.starts(this->link.size()).size() - 1,
                " nodes, a ring across them, over ", this->link.size(), " ranks: exact mean");
  }

  template <class Wire>
  void run(Wire w) const {
    const int p = this->link.size(), r = this->link.rank();
    const std::vector<int> starts = this->where.starts(p);
    const auto start = [&](int node) { return starts[static_cast<std::size_t>(node)]; };
    const int g = static_cast<int>(starts.size()) - 1;
    const auto after = std::upper_bound(starts.begin(), starts.end(), r) - starts.begin();
    const int node = static_cast<int>(after) - 1;

    const blocks all{0, g};
    const detail::binomial inside{r, r - start(node), start(node + 1) - start(node)};
    inside.reduce(w, all);
    if (r == start(node)) {
      const detail::circle across{node, g, start((node + g - 1) % g), start((node + 1) % g)};
      const auto chunk = [](int c) { return blocks{c, c + 1}; };
      across.scatter(w, chunk);
      w.finish(chunk(node), p);
      across.gather(w, chunk);
    }
    inside.broadcast(w, all);
    w.open();
  }
};
template <class Link>
hierarchical(Link, nodes) -> hierarchical<Link>;

}  // namespace cordee::inline CORDEE_ABI
