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

#include <cordee/comm/exact_method.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/topology/fixed.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {
template <class Link>
struct torus_of {
  using link_type = Link;
  Link link;
  int rows = 0;  // 0: as near to a square as can be
};
}  // namespace detail

template <class Link>
struct torus_ring : exact_method<torus_ring<Link>, detail::torus_of<Link>> {
  /// A row's chunk to receive into, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    const int x = columns(), chunks = x == 1 ? this->link.size() : x;
    return n / static_cast<std::size_t>(chunks) * sizeof(Real) + sizeof(Real);
  }
  [[nodiscard]] int parts(std::size_t) const { return this->link.size(); }

  [[nodiscard]] std::string describe() const {
    const int x = columns();
    return text("rings over ", this->link.size() / x, " x ", x, " ranks: exact mean");
  }

  template <class Wire>
  void run(Wire w) const {
    const int p = this->link.size(), r = this->link.rank();
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

 private:
  [[nodiscard]] int columns() const {
    return this->link.size() / detail::rows_of(this->rows, this->link.size());
  }
};
template <class Link>
torus_ring(Link) -> torus_ring<Link>;
template <class Link>
torus_ring(Link, int) -> torus_ring<Link>;

}  // namespace cordee::inline CORDEE_ABI
