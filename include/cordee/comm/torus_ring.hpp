// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean over a torus of Y rows of X ranks, ring by ring (Mikami et al. 2018).
//
//   the rings of the rows scatter sums of X chunks;  those of the columns make a chunk's mean, in Y
//   parts;  the rows gather the chunks
//
// 2(X-1) + 2(Y-1) messages a rank; the bytes are a flat ring's, 2n(p-1)/p a rank, and of them only
// 2(n/X)(Y-1)/Y leave a row: let the ranks of a row share a machine. A prime number of ranks is one
// row, and the flat ring. (`torus` is the graph of that shape, for gossip.)
#pragma once

#include <string>

#include <cordee/comm/encoded_wire.hpp>
#include <cordee/comm/reducer.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/topology/fixed.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Link>
struct torus_ring {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;
  int rows = 0;  // 0: as near to a square as can be

  /// A row's chunk to receive into, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    const int x = columns(), chunks = x == 1 ? link.size() : x;
    return n / static_cast<std::size_t>(chunks) * sizeof(Real) + sizeof(Real);
  }
  template <Precision P>
  [[nodiscard]] std::size_t scratch_as(std::size_t n) const {
    return encoded_scratch<P>(n, link.size());
  }

  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment&, typename D::stream s) const {
    run(plain_wire<Link, Real, D>{link, m.what, m.scratch, link.size(), s});
  }
  template <Precision P, class Real, Device D>
  void mix_as(message<Real, D, 0> m, span_on<Real, D> lost, const moment&,
              typename D::stream s) const {
    run(encoded_wire<P, Link, Real, D>{link, m.which, m.what, m.scratch, lost, link.size(), s});
  }

  [[nodiscard]] std::string describe() const {
    const int x = columns();
    return text("rings over ", link.size() / x, " x ", x, " ranks: exact mean");
  }

 private:
  [[nodiscard]] int columns() const { return link.size() / detail::rows_of(rows, link.size()); }

  template <class Wire>
  void run(Wire w) const {
    const int p = link.size(), r = link.rank();
    if (p == 1) return;
    const int width = columns(), height = p / width, x = r % width, y = r / width;
    const int west = x == 0 ? r + width - 1 : r - 1, east = x == width - 1 ? r + 1 - width : r + 1;
    const detail::circle row{x, width, west, east};
    const detail::circle column{y, height, (r + p - width) % p, (r + width) % p};
    const auto chunk = [=](int c) { return blocks{c * height, (c + 1) * height}; };
    const auto part = [=](int c) { return blocks{x * height + c, x * height + c + 1}; };
    row.scatter(w, chunk);
    column.scatter(w, part);
    w.finish(part(y), p);
    column.gather(w, part);
    row.gather(w, chunk);
    w.open();
  }
};
template <class Link>
torus_ring(Link) -> torus_ring<Link>;
template <class Link>
torus_ring(Link, int) -> torus_ring<Link>;

}  // namespace cordee::inline CORDEE_ABI
