// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic that rules with one momentum share: a direction, and the move that it makes.
//
//   d = g + decay w
//   u <- carry u + gain d
//   w <- w - rate u                            heavy ball (Polyak 1964)
//   w <- w - rate (momentum u + gain d)        Nesterov's, as it is used (Sutskever et al. 2013)
//
// The rules differ in where the rate and a segment's ratio stand: in `gain`, which the history
// keeps, or in `rate`, which acts on all of it. What would be beyond half of the largest number
// counts as that: gradients that are finite leave a state that is.
#pragma once

#include <cstddef>

#include <cordee/core/protocol.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

template <class Real>
struct momentum_move {
  Real *w, *u;
  Real carry, gain = 1, rate = 1;
  Real on_u, on_step;

  template <class D>
  momentum_move(const view<Real, D, 1>& v, double momentum, bool nesterov)
      : w(v.weights.data),
        u(v.slots[0].data),
        carry(static_cast<Real>(momentum)),
        on_u(nesterov ? carry : Real{1}),
        on_step(nesterov ? Real{1} : Real{0}) {}

  template <class At>
  constexpr void operator()(At at, typename At::number d) const {
    const typename At::number step = at.limited(gain * at.limited(d)),
                              moved = at.limited(carry * at(u) + step);
    at.put(u, moved);
    at.put(w, at.limited(at(w) - rate * (on_u * moved + on_step * step)));
  }
};

/// The move along g + decay w.
template <class Real>
struct decayed_move {
  momentum_move<Real> move;
  const Real* g;
  Real decay;

  template <class D>
  decayed_move(const view<Real, D, 1>& v, double momentum, bool nesterov, double weight_decay)
      : move(v, momentum, nesterov), g(v.grads.data), decay(factor<Real>(weight_decay)) {}

  template <class At>
  constexpr void operator()(At at) const {
    move(at, at(g) + decay * at(move.w));
  }
};

/// g <- g + decay w
template <class Real>
struct decayed_gradient {
  const Real* w;
  Real* g;
  Real decay;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, at(g) + decay * at(w));
  }
};

/// An arithmetic with a `decay`, which only the segments of some kinds take.
template <class Arithmetic>
struct decaying {
  kinds decays;
  Arithmetic f;

  CORDEE_HOST_DEVICE Arithmetic of(kind what, std::size_t) const {
    Arithmetic own = f;
    if (!decays(what)) own.decay = 0;
    return own;
  }
};
template <class Arithmetic>
decaying(kinds, Arithmetic) -> decaying<Arithmetic>;

/// A body whose arithmetic depends on the moment: `set(arithmetic, moment)` says how.
template <class Set, class Body>
struct at_moment {
  Set set;
  const moment* now;
  Body body;

  CORDEE_HOST_DEVICE auto of(kind what, std::size_t k) const {
    auto own = arithmetic_of(body, what, k);
    set(own, *now);
    return own;
  }
};
template <class Set, class Body>
at_moment(Set, const moment*, Body) -> at_moment<Set, Body>;

/// momentum rate / previous rate, where that says something.
struct correction {
  double momentum;
  bool wanted;

  template <class Real>
  CORDEE_HOST_DEVICE void operator()(Real& carry, const moment& now) const {
    if (wanted && now.previous_rate > 1e-7)
      carry = factor<Real>(momentum * (now.rate / now.previous_rate));
  }
};

}  // namespace detail

}  // namespace cordee::inline CORDEE_ABI
