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

#include <cordee/comm/exact_method.hpp>
#include <cordee/comm/fold.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Link>
struct halving : exact_method<halving<Link>, linked<Link>> {
  /// Half of it, or a folded neighbour's vector, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  [[nodiscard]] int parts(std::size_t) const { return fold{0, this->link.size()}.ranks(); }
  static constexpr bool in_rounds = true;

  [[nodiscard]] std::string describe() const {
    return text("halving and doubling over ", this->link.size(), " ranks: exact mean");
  }

  template <class Wire>
  void run(Wire w) const {
    const int ranks = fold{this->link.rank(), this->link.size()}.ranks();
    for (int first = 0; first < w.count(); first += ranks) round(w, {first, first + ranks});
  }

 private:
  template <class Wire>
  void round(Wire& w, blocks mine) const {
    const int p = this->link.size();
    fold{this->link.rank(), p}.around(w, mine, [&](const fold& f) {
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
