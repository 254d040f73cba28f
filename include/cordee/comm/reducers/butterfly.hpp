// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean by recursive doubling: whole vectors across a butterfly, for short messages.
//
//   step k: exchange the whole vector with rank r XOR 2^k and add;  at last every rank divides by p
//
// log2 p messages and n log2 p numbers a rank if p is a power of two; otherwise some ranks have two
// more hops (power_of_two_remap.hpp). Both partners add the same two numbers, and a + b is b + a,
// so all ranks hold the same bits. The order of a sum depends only on the ranks, so results do not
// depend on bucket sizes.
#pragma once

#include <string>

#include <cordee/comm/reducers/exact_method.hpp>
#include <cordee/comm/reducers/power_of_two_remap.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI {

/// Exact mean in log2 p exchanges of whole vectors.
template <class Communicator>
struct butterfly : exact_method<butterfly<Communicator>, Communicator> {
  /// Scratch for the partner's vector, which reads this rank's while this rank would add to it.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  /// 1: whole vectors are sent.
  [[nodiscard]] int chunks(std::size_t) const { return 1; }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("butterfly over ", this->comm.size(), " ranks: exact mean");
  }

  /// See exact_method.
  template <class Wire>
  void run(Wire w) const {
    const int p = this->comm.size();
    constexpr chunk_range vector{0, 1};
    const detail::comm::power_of_two_remap remap{this->comm.rank(), p};
    remap.run(w, vector, [&] {
      for (int step = 1; step < remap.ranks(); step *= 2) {
        const int peer = remap.rank_of(remap.index() ^ step);
        w.add(peer, vector, peer, vector, step);
      }
      w.average(vector, p, remap.ranks());
    });
  }
};
template <class Communicator>
butterfly(Communicator) -> butterfly<Communicator>;

}  // namespace cordee::inline CORDEE_ABI
