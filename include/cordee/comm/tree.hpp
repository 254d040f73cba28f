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

#include <cordee/comm/encoded_wire.hpp>
#include <cordee/comm/reducer.hpp>
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
struct tree {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;

  /// A child's vector, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  template <Precision P>
  [[nodiscard]] std::size_t scratch_as(std::size_t n) const {
    return encoded_scratch<P>(n, 1);
  }

  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment&, typename D::stream s) const {
    run(plain_wire<Link, Real, D>{link, m.what, m.scratch, 1, s});
  }
  template <Precision P, class Real, Device D>
  void mix_as(message<Real, D, 0> m, span_on<Real, D> lost, const moment&,
              typename D::stream s) const {
    run(encoded_wire<P, Link, Real, D>{link, m.which, m.what, m.scratch, lost, 1, s});
  }

  [[nodiscard]] std::string describe() const {
    return text("tree over ", link.size(), " ranks: exact mean");
  }

 private:
  template <class Wire>
  void run(Wire w) const {
    const int p = link.size(), r = link.rank();
    if (p == 1) return;
    constexpr blocks all{0, 1};
    const detail::binomial edges{r, r, p};
    edges.reduce(w, all);
    if (r == 0) w.finish(all, p);
    edges.broadcast(w, all);
    w.open();
  }
};
template <class Link>
tree(Link) -> tree<Link>;

}  // namespace cordee::inline CORDEE_ABI
