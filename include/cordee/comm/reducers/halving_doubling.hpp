// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean by recursive halving and doubling (Rabenseifner 2004), for long messages.
//
//   step k: the pair r, r XOR 2^k halves its range; the lower rank keeps the lower half, each adds
//   the half that it keeps;  at last each divides its chunk by p;  the same steps in reverse gather
//
// 2 log2 p messages and 2n(p-1)/p numbers a rank if p is a power of two; otherwise
// (power_of_two_remap.hpp) at most n + 2n(p'-1)/p' numbers a rank, with p' the power of two below
// p. The order of a sum depends only on the ranks, so results do not depend on bucket sizes.
#pragma once

#include <string>

#include <cordee/comm/reducers/exact_method.hpp>
#include <cordee/comm/reducers/power_of_two_remap.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI {

/// Exact mean in log2 p halvings of the vector and as many doublings.
template <class Communicator>
struct halving_doubling : exact_method<halving_doubling<Communicator>, Communicator> {
  static constexpr bool can_pipeline = true;  ///< See exact_method.
  static constexpr bool can_shard = true;     ///< See reducer.hpp.

  /// Scratch for half of the message, or an idle neighbour's vector, unless the transport has a
  /// fused add.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  /// The largest power of two that is at most the number of ranks.
  [[nodiscard]] int chunks(std::size_t) const { return remap().ranks(); }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("halving and doubling over ", this->comm.size(), " ranks: exact mean");
  }

  /// See exact_method.
  template <class Wire>
  void run(Wire w) const {
    const int ranks = remap().ranks();
    for (int first = 0; first < w.count(); first += ranks) round(w, {first, first + ranks});
  }

 private:
  [[nodiscard]] detail::comm::power_of_two_remap remap() const {
    return {this->comm.rank(), this->comm.size()};
  }

  template <class Wire>
  void round(Wire& w, chunk_range own) const {
    const detail::comm::power_of_two_remap map = remap();
    map.run(w, own, [&] {
      int step = 1;
      for (; step < map.ranks(); step *= 2) {
        const int peer = map.rank_of(map.index() ^ step), middle = (own.first + own.last) / 2;
        const bool lower = (map.index() & step) == 0;
        const chunk_range low{own.first, middle}, high{middle, own.last};
        w.add(peer, lower ? high : low, peer, lower ? low : high);
        own = lower ? low : high;
      }
      w.average(own, this->comm.size());
      while ((step /= 2) > 0) {
        const int peer = map.rank_of(map.index() ^ step), size = own.last - own.first;
        const bool lower = (map.index() & step) == 0;
        const chunk_range other = lower ? chunk_range{own.last, own.last + size}
                                        : chunk_range{own.first - size, own.first};
        w.pass(peer, own, peer, other);
        own = lower ? chunk_range{own.first, other.last} : chunk_range{other.first, own.last};
      }
    });
  }
};
template <class Communicator>
halving_doubling(Communicator) -> halving_doubling<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
