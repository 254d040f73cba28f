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

#include <cordee/comm/exact_method.hpp>
#include <cordee/comm/fold.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Link>
struct butterfly : exact_method<butterfly<Link>, linked<Link>> {
  /// The partner's vector: it reads mine while I would add to it.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  [[nodiscard]] int parts(std::size_t) const { return 1; }

  [[nodiscard]] std::string describe() const {
    return text("butterfly over ", this->link.size(), " ranks: exact mean");
  }

  template <class Wire>
  void run(Wire w) const {
    const int p = this->link.size();
    constexpr blocks all{0, 1};
    fold{this->link.rank(), p}.around(w, all, [&](const fold& f) {
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
