// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean by recursive doubling: whole vectors across a butterfly, for short messages.
//
//   step k: exchange all of it with rank r XOR 2^k and add;  at last everybody divides by p
//
// log2 p messages and n log2 p bytes a rank for p a power of two, otherwise folded (fold.hpp). Both
// partners add the same two numbers, and a + b is b + a, so all ranks agree to the bit; the order
// of a sum depends on the ranks alone, so results are the same across bucket sizes.
#pragma once

#include <string>

#include <cordee/comm/encoded_wire.hpp>
#include <cordee/comm/fold.hpp>
#include <cordee/comm/reducer.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Link>
struct butterfly {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;

  /// The partner's vector: it reads mine while I would add to it.
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
    return text("butterfly over ", link.size(), " ranks: exact mean");
  }

 private:
  template <class Wire>
  void run(Wire w) const {
    const int p = link.size();
    if (p == 1) return;
    constexpr blocks all{0, 1};
    fold{link.rank(), p}.around(w, all, [&](const fold& f) {
      for (int step = 1; step < f.ranks(); step *= 2) {
        const int peer = f.rank_of(f.number() ^ step);
        w.add(peer, all, peer, all, step);
      }
      w.finish(all, p, f.ranks());
    });
  }
};
template <class Link>
butterfly(Link) -> butterfly<Link>;

}  // namespace cordee::inline CORDEE_ABI
