// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of all optimizers with one momentum: a direction and the update along it.
//
//   d = g + decay w
//   u <- carry u + gain d
//   w <- w - lr u                            heavy ball (Polyak 1964)
//   w <- w - lr (momentum u + gain d)        Nesterov, as used (Sutskever et al. 2013)
//
// The optimizers differ in where the learning rate and a segment's trust ratio stand: in `gain`,
// which acts on new directions alone, or in `learning_rate`, which acts on the whole momentum.
// Values beyond half of the largest number are limited to it, so that finite gradients leave a
// finite state.
#pragma once

#include <cstddef>

#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::optim {

template <class Real>
struct momentum_update {
  Real *w, *u;
  Real carry, gain = 1, learning_rate = 1;
  Real weight_of_u, weight_of_step;  // 1, 0 for heavy ball; momentum, 1 for Nesterov

  template <class D, int Slots>
  momentum_update(const optimizer_view<Real, D, Slots>& v, double momentum, bool nesterov)
      : w(v.weights.data),
        u(v.slots[0].data),
        carry(static_cast<Real>(momentum)),
        weight_of_u(nesterov ? carry : Real{1}),
        weight_of_step(nesterov ? Real{1} : Real{0}) {}

  template <class At>
  constexpr void operator()(At at, typename At::number d) const {
    // w before u is stored: behind it, what was loaded of w for d would be loaded again.
    const typename At::number before = at(w), step = at.clamped(gain * at.clamped(d)),
                              updated = at.clamped(carry * at(u) + step);
    at.put(u, updated);
    at.put(w, at.clamped(before - learning_rate * (weight_of_u * updated + weight_of_step * step)));
  }
};

/// The update along g + decay w.
template <class Real>
struct decayed_update {
  momentum_update<Real> update;
  const Real* g;
  Real decay;

  template <class D>
  decayed_update(const optimizer_view<Real, D, 1>& v, double momentum, bool nesterov,
                 double weight_decay)
      : update(v, momentum, nesterov), g(v.grads.data), decay(factor<Real>(weight_decay)) {}

  template <class At>
  constexpr void operator()(At at) const {
    update(at, at(g) + decay * at(update.w));
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

/// `arithmetic` with its `decay` set to 0 for segments whose kind is not in `decay_on`.
template <class Arithmetic>
struct decay_by_kind {
  kinds decay_on;
  Arithmetic arithmetic;

  CORDEE_HOST_DEVICE Arithmetic for_segment(kind what, std::size_t) const {
    Arithmetic result = arithmetic;
    if (!decay_on(what)) result.decay = 0;
    return result;
  }
};
template <class Arithmetic>
decay_by_kind(kinds, Arithmetic) -> decay_by_kind<Arithmetic>;

/// `body` whose arithmetic depends on the step: `set(arithmetic, step_info)` completes it where
/// kernels run.
template <class Set, class Body>
struct with_step_info {
  Set set;
  const step_info* info;
  Body body;

  CORDEE_HOST_DEVICE auto for_segment(kind what, std::size_t k) const {
    auto result = ops::body_for_segment(body, what, k);
    set(result, *info);
    return result;
  }
};
template <class Set, class Body>
with_step_info(Set, const step_info*, Body) -> with_step_info<Set, Body>;

/// carry <- momentum lr / previous lr (Goyal et al. 2017, remark 2) where the previous learning
/// rate is above 1e-7.
struct corrected_momentum {
  double momentum;
  bool enabled;

  template <class Real>
  CORDEE_HOST_DEVICE void operator()(Real& carry, const step_info& info) const {
    if (enabled && info.previous_learning_rate > 1e-7)
      carry = factor<Real>(momentum * (info.learning_rate / info.previous_learning_rate));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::optim
