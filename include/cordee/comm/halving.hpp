// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean by recursive halving and doubling (Rabenseifner 2004), for long messages.
//
//   step k: the pair r, r XOR 2^k halves its window; the lower rank keeps the lower half, each adds
//   the half it keeps of the other;  at last each divides its block by p, and the way back gathers
//
// 2 log2 p messages and 2n(p-1)/p bytes a rank for p a power of two, otherwise folded (fold.hpp):
// no more than n + 2n(p-1)/p bytes a rank, with p the power below. The order of a sum depends on
// the ranks alone, so results are the same across bucket sizes.
#pragma once

#include <string>

#include <cordee/comm/encoded_wire.hpp>
#include <cordee/comm/fold.hpp>
#include <cordee/comm/reducer.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Link>
struct halving {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;

  /// Half of it, or a folded neighbour's vector, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  template <Precision P>
  [[nodiscard]] std::size_t scratch_as(std::size_t n) const {
    return encoded_scratch<P>(n, parts());
  }

  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment&, typename D::stream s) const {
    run(plain_wire<Link, Real, D>{link, m.what, m.scratch, parts(), s});
  }
  template <Precision P, class Real, Device D>
  void mix_as(message<Real, D, 0> m, span_on<Real, D> lost, const moment&,
              typename D::stream s) const {
    run(encoded_wire<P, Link, Real, D>{link, m.which, m.what, m.scratch, lost, parts(), s});
  }

  [[nodiscard]] std::string describe() const {
    return text("halving and doubling over ", link.size(), " ranks: exact mean");
  }

 private:
  [[nodiscard]] int parts() const { return fold{0, link.size()}.ranks(); }

  template <class Wire>
  void run(Wire w) const {
    const int p = link.size();
    if (p == 1) return;
    const fold folded{link.rank(), p};
    blocks mine{0, folded.ranks()};
    folded.around(w, mine, [&](const fold& f) {
      int step = 1;
      for (; step < f.ranks(); step *= 2) {
        const int peer = f.rank_of(f.number() ^ step), half = (mine.first + mine.last) / 2;
        const bool lower = (f.number() & step) == 0;
        const blocks low{mine.first, half}, high{half, mine.last};
        w.add(peer, lower ? high : low, peer, lower ? low : high);
        mine = lower ? low : high;
      }
      w.finish(mine, p);
      while ((step /= 2) > 0) {
        const int peer = f.rank_of(f.number() ^ step), size = mine.last - mine.first;
        const bool lower = (f.number() & step) == 0;
        const blocks theirs =
            lower ? blocks{mine.last, mine.last + size} : blocks{mine.first - size, mine.first};
        w.pass(peer, mine, peer, theirs);
        mine = lower ? blocks{mine.first, theirs.last} : blocks{theirs.first, mine.last};
      }
    });
  }
};
template <class Link>
halving(Link) -> halving<Link>;

}  // namespace cordee::inline CORDEE_ABI
