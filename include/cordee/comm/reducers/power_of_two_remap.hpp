// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Any number of ranks for methods that need a power of two (Thakur, Rabenseifner and Gropp 2005).
//
//   p' = 2^floor(log2 p), e = p - p';  of the first 2e ranks the even ones send their vector to
//   their odd neighbour, which adds it, and receive the mean from it at the end; the p' other ranks
//   run the method under new indices
//
// Two more hops of n bytes each for the pairs.
#pragma once

#include <bit>

#include <cordee/comm/reducers/wire.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

struct power_of_two_remap {
  int rank, size;  // of the communicator

  [[nodiscard]] constexpr int ranks() const {  // p'
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  }
  [[nodiscard]] constexpr bool is_paired() const { return rank < 2 * extra(); }
  [[nodiscard]] constexpr bool is_idle() const { return is_paired() && rank % 2 == 0; }
  /// This rank's index among the p', and the rank of index i.
  [[nodiscard]] constexpr int index() const { return is_paired() ? rank / 2 : rank - extra(); }
  [[nodiscard]] constexpr int rank_of(int i) const { return i < extra() ? 2 * i + 1 : i + extra(); }

  /// Effects: method() on the p' ranks, between the hops of the pairs.
  template <class Wire, class Method>
  void run(Wire& w, chunk_range range, const Method& method) const {
    if (is_idle()) {
      w.add(rank + 1, range, no_peer, range);
      w.pass(no_peer, range, rank + 1, range);
    } else {
      if (is_paired()) w.add(no_peer, range, rank - 1, range);
      method();
      if (is_paired()) w.pass(rank - 1, range, no_peer, range);
    }
    w.flush();
  }

 private:
  [[nodiscard]] constexpr int extra() const { return size - ranks(); }
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
