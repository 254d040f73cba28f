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

#include <cordee/comm/exact_method.hpp>
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
struct ring : exact_method<ring<Link>, linked<Link>> {
  /// One chunk to receive into, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n / static_cast<std::size_t>(this->link.size()) * sizeof(Real) + sizeof(Real);
  }
  [[nodiscard]] int parts(std::size_t) const { return this->link.size(); }
  static constexpr bool in_rounds = true;

  [[nodiscard]] std::string describe() const {
    return text("ring over ", this->link.size(), " ranks: exact mean");
  }

  template <class Wire>
  void run(Wire w) const {
    const int p = this->link.size(), r = this->link.rank(), rounds = w.count() / p;
    const detail::circle all{r, p, (r + p - 1) % p, (r + 1) % p};
    for (int k = 0; k < rounds; ++k) {  // of each chunk the k-th part
      const auto chunk = [=](int c) { return blocks{c * rounds + k, c * rounds + k + 1}; };
      all.scatter(w, chunk);
      w.finish(chunk(r), p);
      all.gather(w, chunk);
    }
    w.open();
  }
};
template <class Link>
ring(Link) -> ring<Link>;

}  // namespace cordee::inline CORDEE_ABI
