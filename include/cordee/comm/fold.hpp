// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Any number of ranks for methods that want a power of two (Thakur, Rabenseifner and Gropp 2005).
//
//   p' = 2^floor(log2 p), e = p - p';  of the first 2e ranks the even ones add theirs to their odd
//   neighbour's and wait for the result; the p' others run the method under new numbers
//
// Two more hops of n bytes each for the folded pairs.
#pragma once

#include <bit>

#include <cordee/comm/wire.hpp>

namespace cordee::inline CORDEE_ABI {

struct fold {
  int rank, size;  // of the link

  [[nodiscard]] constexpr int ranks() const {  // p'
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  }
  [[nodiscard]] constexpr bool paired() const { return rank < 2 * extra(); }
  [[nodiscard]] constexpr bool waits() const { return paired() && rank % 2 == 0; }
  /// My number among the p', and the link's rank of number x.
  [[nodiscard]] constexpr int number() const { return paired() ? rank / 2 : rank - extra(); }
  [[nodiscard]] constexpr int rank_of(int x) const { return x < extra() ? 2 * x + 1 : x + extra(); }

  /// method(this fold) on the p' ranks, between the hops of the pairs.
  template <class Wire, class Method>
  void around(Wire& w, blocks all, const Method& method) const {
    if (waits()) {
      w.add(rank + 1, all, nobody, all);
      w.pass(nobody, all, rank + 1, all);
    } else {
      if (paired()) w.add(nobody, all, rank - 1, all);
      method(*this);
      if (paired()) w.pass(rank - 1, all, nobody, all);
    }
    w.open();
  }

 private:
  [[nodiscard]] constexpr int extra() const { return size - ranks(); }
};

}  // namespace cordee::inline CORDEE_ABI
