// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean over a binomial tree: a reduction to rank 0, then a broadcast down the same edges.
//
//   round k up:   ranks whose lowest set bit is bit k send what they have to r - 2^k and leave
//   rank 0 divides by p;  round k down: ranks with bits 0 .. k clear send to r + 2^k
//
// One message up and one down each of p-1 edges, n bytes each; 2 ceil(log2 p) steps, whatever p.
// The order of a sum depends on the ranks alone, so results are the same across bucket sizes.
#pragma once

#include <string>

#include <cordee/comm/exact_method.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// A binomial tree over `size` neighbours; this rank is number `at` of them, number 0 the root.
struct binomial {
  int rank, at, size;

  /// The root has the sum of all.
  template <class Wire>
  void reduce(Wire& w, blocks all) const {
    const int top = edge();
    for (int k = 1; k < top; k *= 2)
      if (at + k < size) w.add(nobody, all, rank + k, all);
    if (at != 0) w.add(rank - top, all, nobody, all);
  }
  /// All have what the root has.
  template <class Wire>
  void broadcast(Wire& w, blocks all) const {
    const int top = edge();
    if (at != 0) w.pass(nobody, all, rank - top, all);
    for (int k = top / 2; k > 0; k /= 2)
      if (at + k < size) w.pass(rank + k, all, nobody, all);
  }

 private:
  // To my parent, or beyond all edges.
  [[nodiscard]] int edge() const {
    int top = 1;
    while (top < size && (at & top) == 0) top *= 2;
    return top;
  }
};

}  // namespace detail

template <class Link>
struct tree : exact_method<tree<Link>, linked<Link>> {
  /// A child's vector, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  [[nodiscard]] int parts(std::size_t) const { return 1; }
  static constexpr bool in_rounds = true;

  [[nodiscard]] std::string describe() const {
    return text("tree over ", this->link.size(), " ranks: exact mean");
  }

  template <class Wire>
  void run(Wire w) const {
    const int p = this->link.size(), r = this->link.rank(), rounds = w.count();
    const detail::binomial edges{r, r, p};
    for (int k = 0; k <= rounds; ++k) {  // one goes down while the next comes up
      const blocks up{k, k + 1}, down{k - 1, k};
      if (k < rounds) edges.reduce(w, up);
      if (k < rounds && r == 0) w.finish(up, p);
      if (k > 0) edges.broadcast(w, down);
    }
    w.open();
  }
};
template <class Link>
tree(Link) -> tree<Link>;

}  // namespace cordee::inline CORDEE_ABI
