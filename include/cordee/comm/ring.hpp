// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean over a ring: reduce-scatter, then all-gather (Patarasuk and Yuan 2009).
//
//   p chunks; step s of the first half: send chunk r-1-s to r+1, add what comes for r-2-s from r-1
//   rank r then owns the sum of chunk r, divides it by p, and the chunks go round once more
//
// 2(p-1) messages and 2n(p-1)/p bytes a rank, whatever p. The order of a sum depends on the chunk,
// so results are the same on all ranks, to the bit, but not across bucket sizes.
#pragma once

#include <string>

#include <cordee/comm/encoded_wire.hpp>
#include <cordee/comm/reducer.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// A circle of `size` ranks, between two of which this one stands as number `at`. chunk(c) is what
/// number c is to have the sum of.
struct circle {
  int at, size, before, next;

  template <class Wire, class Chunk>
  void scatter(Wire& w, const Chunk& chunk) const {
    for (int step = 0; step < size - 1; ++step)
      w.add(next, chunk(number(at - 1 - step)), before, chunk(number(at - 2 - step)));
  }
  template <class Wire, class Chunk>
  void gather(Wire& w, const Chunk& chunk) const {
    for (int step = 0; step < size - 1; ++step)
      w.pass(next, chunk(number(at - step)), before, chunk(number(at - 1 - step)));
  }

 private:
  [[nodiscard]] int number(int c) const { return (c % size + size) % size; }
};

}  // namespace detail

template <class Link>
struct ring {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;

  /// One chunk to receive into, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n / static_cast<std::size_t>(link.size()) * sizeof(Real) + sizeof(Real);
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
    return text("ring over ", link.size(), " ranks: exact mean");
  }

 private:
  template <class Wire>
  void run(Wire w) const {
    const int p = link.size(), r = link.rank();
    if (p == 1) return;
    const detail::circle all{r, p, (r + p - 1) % p, (r + 1) % p};
    const auto chunk = [](int c) { return blocks{c, c + 1}; };
    all.scatter(w, chunk);
    w.finish(chunk(r), p);
    all.gather(w, chunk);
    w.open();
  }
};
template <class Link>
ring(Link) -> ring<Link>;

}  // namespace cordee::inline CORDEE_ABI
