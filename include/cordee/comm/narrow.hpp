// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A reducer whose every hop is encoded in a narrower precision P, with error feedback (Seide et al.
// 2014): narrow{ring{link}, fp16{}}, or bf16{}, or int8{}.
//
//   x <- x + e;  e <- what this rank's encodings lose on the way, in units of x;  x <- mean of x
//
// What was lost is said next time, so over many steps the means add up. A rank encodes each of its
// numbers once, on the hop that hands its partial sum on or as the mean it owns (a butterfly at
// each step), and all ranks leave with the same bits (encoded_wire.hpp). Sums are made in the
// numbers' own precision. The rounding is harmless in a gradient and would drown the differences of
// positions: `lossless` says so. A step that is skipped leaves e cleared, for what is not finite
// would stay in it.
#pragma once

#include <cstddef>
#include <string>

#include <cordee/comm/reducer.hpp>
#include <cordee/core/text.hpp>
#include <cordee/ops/elementwise.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {
/// x <- x + e, e <- 0
template <class Real>
struct says_after_all {
  Real *x, *e;
  CORDEE_HOST_DEVICE void operator()(std::size_t i) const {
    x[i] += e[i];
    e[i] = 0;
  }
};
}  // namespace detail

template <class R, Precision P>
struct narrow {
  using link_type = typename R::link_type;
  static constexpr agreement offers = R::offers;
  static constexpr bool lossless = false;
  static constexpr int slots = 1;
  static_assert(R::slots == 0, "narrow: the reducer inside may have no memory of its own");
  static_assert(
      R::slots != 0 || requires(const R r) { r.template scratch_as<P>(std::size_t{}); },
      "narrow: the reducer inside leaves its hops to the transport or makes none: use one that "
      "encodes its own, such as ring, halving, tree, double_tree or hierarchical");

  R reducer;
  P wire{};
  link_type link = reducer.link;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return reducer.template scratch_as<P>(n);
  }

  template <class Real, Device D>
    requires NarrowsOn<R, P, Real, D>
  void mix(message<Real, D, 1> m, const moment& now, typename D::stream s) const {
    const span_on<Real, D> lost = m.memory[0];
    for_each(s, m.what.size, detail::says_after_all<Real>{m.what.data, lost.data});
    reducer.template mix_as<P>(message<Real, D, 0>{m.which, m.what, {}, m.scratch}, lost, now, s);
  }

  [[nodiscard]] std::string describe() const {
    return text(reducer.describe(), ", every hop in ", P::name, " with error feedback");
  }
};
template <class R, class P>
narrow(R, P) -> narrow<R, P>;

}  // namespace cordee::inline CORDEE_ABI
