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

#include <array>
#include <string>

#include <cordee/comm/reducer.hpp>
#include <cordee/core/text.hpp>
#include <cordee/ops/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Link>
struct ring {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;

  /// One chunk to receive into, where the transport cannot add by itself.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n / static_cast<std::size_t>(link.size()) * sizeof(Real) + sizeof(Real);
  }

  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment&, typename D::stream s) const {
    const int p = link.size(), r = link.rank();
    if (p == 1) return;
    const auto chunk = [&](int c) {  // sizes differ by at most one
      const auto at = [&](int i) {
        return m.what.size * static_cast<std::size_t>(i) / static_cast<std::size_t>(p);
      };
      const int k = (c % p + p) % p;
      return m.what.subspan(at(k), at(k + 1) - at(k));
    };
    const int next = (r + 1) % p, before = (r + p - 1) % p;

    for (int step = 0; step < p - 1; ++step)
      pass(next, chunk(r - 1 - step), before, chunk(r - 2 - step), m.scratch, s);

    const auto own = chunk(r);  // (n / p)
    for_each(s, own.size, [x = own.data, p](std::size_t i) { x[i] /= static_cast<Real>(p); });

    for (int step = 0; step < p - 1; ++step) {
      const std::array out{to<D>{next, const_bytes(chunk(r - step))}};
      const std::array in{from<D>{before, bytes(chunk(r - 1 - step))}};
      link.exchange(std::span<const to<D>>(out), std::span<const from<D>>(in), s);
    }
  }

  [[nodiscard]] std::string describe() const {
    return text("ring over ", link.size(), " ranks: exact mean");
  }

 private:
  // Send one chunk on, add what arrives to another.
  template <class Real, Device D>
  void pass(int next, span_on<Real, D> said, int before, span_on<Real, D> sum,
            span_on<std::byte, D> scratch, typename D::stream s) const {
    const std::array out{to<D>{next, const_bytes(said)}};
    if constexpr (AddsOn<Link, Real, D>) {
      const std::array in{from<D>{before, bytes(sum)}};
      link.template exchange_add<Real>(std::span<const to<D>>(out), std::span<const from<D>>(in),
                                       s);
    } else {
      const span_on<Real, D> heard{reinterpret_cast<Real*>(scratch.data), sum.size};
      const std::array in{from<D>{before, bytes(heard)}};
      link.exchange(std::span<const to<D>>(out), std::span<const from<D>>(in), s);
      for_each(s, sum.size, [x = sum.data, y = heard.data](std::size_t i) { x[i] += y[i]; });
    }
  }
};
template <class Link>
ring(Link) -> ring<Link>;

}  // namespace cordee::inline CORDEE_ABI
