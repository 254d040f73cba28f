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
    const int next = (r + 1) % p, before = (r + p - 1) % p;
    const auto chunk = [p](int c) {
      const int k = (c % p + p) % p;
      return blocks{k, k + 1};
    };
    for (int step = 0; step < p - 1; ++step)
      w.add(next, chunk(r - 1 - step), before, chunk(r - 2 - step));
    w.finish(chunk(r), p);
    for (int step = 0; step < p - 1; ++step)
      w.pass(next, chunk(r - step), before, chunk(r - 1 - step));
    w.open();
  }
};
template <class Link>
ring(Link) -> ring<Link>;

}  // namespace cordee::inline CORDEE_ABI
