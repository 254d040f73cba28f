// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// AdamW: Adam with decoupled weight decay (Kingma and Ba 2014; Loshchilov and Hutter 2017).
//
//   m <- beta1 m + (1 - beta1) g           m^ = m / (1 - beta1^t)
//   v <- beta2 v + (1 - beta2) g^2         v^ = v / (1 - beta2^t)        t: applied steps, this one
//   in w <- (1 - rate weight_decay) w - rate m^ / (sqrt(v^) + epsilon)
//
// A gradient larger than 2^63 in single precision (2^511 in double) counts as that: its square
// would be infinite, stay so, and leave its weight without a step for ever.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <cordee/core/text.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/elementwise.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// The moments of Adam, and the direction that they give. A plain value of constants, made once per
/// accept, on the device: they depend on the moment.
template <class Real>
struct adam_moments {
  Real keep1, fresh1, keep2, fresh2, scale1, scale2, epsilon;
  // A quarter of the largest number, rooted: twice its square is still finite.
  Real most = std::ldexp(Real{1}, std::numeric_limits<Real>::max_exponent / 2 - 1);

  /// `applied` steps were made before this one.
  template <class Rule>
  CORDEE_HOST_DEVICE adam_moments(const Rule& rule, const moment& now)
      : keep1(static_cast<Real>(rule.beta1)),
        fresh1(static_cast<Real>(1 - rule.beta1)),
        keep2(static_cast<Real>(rule.beta2)),
        fresh2(static_cast<Real>(1 - rule.beta2)),
        scale1(static_cast<Real>(1 / (1 - power(rule.beta1, now.applied + 1)))),
        scale2(static_cast<Real>(1 / std::sqrt(1 - power(rule.beta2, now.applied + 1)))),
        // Too small for this precision, it would leave 0 / 0 where nothing was ever learned.
        epsilon(std::max(static_cast<Real>(rule.epsilon), std::numeric_limits<Real>::min())) {}

  CORDEE_HOST_DEVICE static double power(double beta, std::int64_t steps) {
    return std::pow(beta, static_cast<double>(steps));
  }

  /// Moves both moments and returns m^ / (sqrt(v^) + epsilon), of the numbers at that place.
  template <class Place>
  [[gnu::always_inline]] constexpr typename Place::number move(Place at, Real* m, Real* v,
                                                               const Real* gradient) const {
    const auto g = at.limited(at(gradient), most);
    const auto first = keep1 * at(m) + fresh1 * g;
    const auto second = keep2 * at(v) + fresh2 * (g * g);
    at.put(m, first);
    at.put(v, second);
    return scale1 * first / (scale2 * at.root(second) + epsilon);
  }
};

/// Makes them of a rule's constants.
template <class Rule, class Real>
struct makes_moments {
  Rule rule;
  const moment* now;
  adam_moments<Real>* to;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const { *to = {rule, *now}; }
};

/// f(where the moments of this step stand on the device)
template <class Real, class Rule, class D, class F>
void with_moments(const Rule& rule, const view<Real, D, 2>& v, const moment& now,
                  typename D::stream s, const F& f) {
  const lent<adam_moments<Real>, typename D::stream> moments(s, 1);
  once(s, makes_moments<Rule, Real>{rule, moment_of(v, now), moments.data()});
  f(moments.data());
}

template <class Real>
struct adamw_step {
  adam_moments<Real> moments;
  Real *w, *m, *q;
  const Real* g;
  Real keep, rate;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(w, at.limited(at.limited(keep * at(w)) - rate * at.limited(moments.move(at, m, q, g))));
  }
};

template <class Real>
struct adamw_move {
  const adam_moments<Real>* moments;
  const moment* now;
  Real *w, *m, *q;
  const Real* g;
  kinds decays;
  double weight_decay;

  CORDEE_HOST_DEVICE adamw_step<Real> of(kind what, std::size_t) const {
    const double keep = decays(what) ? 1 - now->rate * weight_decay : 1;
    return {*moments, w, m, q, g, factor<Real>(keep), factor<Real>(now->rate)};
  }
};

template <class Rule>
void check_adam(std::string_view name, const Rule& rule) {
  expects_memory(name, "beta1", rule.beta1);
  expects_memory(name, "beta2", rule.beta2);
  expects_positive(name, "epsilon", rule.epsilon);
  expects_not_negative(name, "weight_decay", rule.weight_decay);
}

}  // namespace detail

struct adamw {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 2;  // m, v
  static constexpr when norms = when::never;
  static constexpr bool replays = true;

  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  kinds decays = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    detail::with_moments(*this, v, now, s, [&](const auto* moments) {
      segmented_for<Real>(
          s, v.segments,
          detail::adamw_move<Real>{moments, moment_of(v, now), v.weights.data, v.slots[0].data,
                                   v.slots[1].data, v.grads.data, decays, weight_decay});
    });
  }

  void check() const { detail::check_adam("adamw", *this); }
  [[nodiscard]] std::string describe() const {
    return text("adamw, betas ", beta1, " and ", beta2, ", epsilon ", epsilon,
                ", decoupled weight decay ", weight_decay);
  }
};

}  // namespace cordee::inline CORDEE_ABI
