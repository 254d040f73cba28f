// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact mean in one step or two, in which everybody tells everybody (Thakur, Rabenseifner and Gropp
// 2005).
//
//   up to `whole` numbers: all of them to all ranks;  each adds them and divides by p
//   beyond: part k to rank k;  rank k adds what it hears, divides by p and tells all
//
// p-1 messages and n(p-1) bytes a rank, or 2(p-1) and 2n(p-1)/p as in a ring, whose steps it saves:
// with few ranks it is the quickest for short messages. The order of a sum is that of the ranks, so
// results are the same across bucket sizes.
#pragma once

#include <string>
#include <utility>

#include <cordee/comm/reducer.hpp>
#include <cordee/comm/wire.hpp>
#include <cordee/core/series.hpp>
#include <cordee/core/text.hpp>
#include <cordee/ops/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Link>
struct all_to_all {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;
  std::size_t whole = 1u << 10;  // numbers

  /// What every rank has of my part.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    const auto p = static_cast<std::size_t>(link.size());
    return (n <= whole ? n * p : n + p) * sizeof(Real);
  }

  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment&, typename D::stream s) const {
    const int p = link.size(), r = link.rank();
    if (p == 1) return;
    const bool in_parts = m.what.size > whole;
    const auto part = [&](int k) {
      if (!in_parts) return m.what;
      const std::size_t first = block_start(m.what.size, k, p);
      return m.what.subspan(first, block_start(m.what.size, k + 1, p) - first);
    };
    const span_on<Real, D> mine = part(r);
    Real* const sum = reinterpret_cast<Real*>(m.scratch.data);
    const auto row = [&](int k) {
      return span_on<Real, D>{sum + mine.size * static_cast<std::size_t>(k), mine.size};
    };

    exchange<Real, D>(part, row, s);
    convert(mine.size, mine.data, row(r).data, s);
    for (int k = 1; k < p - 1; ++k) add(mine.size, row(k).data, sum, s);
    divide_sum(mine.size, static_cast<Real>(p), row(p - 1).data, sum, s);
    convert(mine.size, sum, mine.data, s);
    if (in_parts) exchange<Real, D>([&](int) { return mine; }, part, s);
  }

  [[nodiscard]] std::string describe() const {
    return text("everybody to everybody over ", link.size(), " ranks: exact mean");
  }

 private:
  // Tells rank k said(k) and takes heard(k) from it; begins with my neighbour, lest all tell one.
  template <class Real, Device D, class Said, class Heard>
  void exchange(const Said& said, const Heard& heard, typename D::stream s) const {
    const int p = link.size();
    series<to<D>> out;
    series<from<D>> in;
    for (int k = 1; k < p; ++k) {
      const int peer = (link.rank() + k) % p;
      out.push_back({peer, const_bytes(said(peer))});
      in.push_back({peer, bytes(heard(peer))});
    }
    link.exchange(std::as_const(out).span(), std::as_const(in).span(), s);
  }
};
template <class Link>
all_to_all(Link) -> all_to_all<Link>;
template <class Link>
all_to_all(Link, std::size_t) -> all_to_all<Link>;

}  // namespace cordee::inline CORDEE_ABI
