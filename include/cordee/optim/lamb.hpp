// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LAMB: Adam's direction, decayed, in steps that are a share of the weights' norm (You et al.
// 2019).
//
//   m^, v^ as in adamw.hpp
//   u = m^ / (sqrt(v^) + epsilon) + weight_decay w
//   w <- w - rate |w| / |u| u                        per segment; the ratio is 1 if |w| or |u| is 0
//
// `lamb` adapts what it decays, the weights, and steps the others at the whole rate: Google's
// reference, apex and timm. `nvlamb` adapts every segment, batch norm and biases too, as the
// paper's box is written; `decays` is unchanged by that. NVIDIA's implementations clip the global
// norm first, as in clip{nvlamb{}, 1.0}; the paper does not. The bias of young moments is
// corrected.
//
// u is written over the gradient: a second pass needs it, and nobody else needs the gradient.
#pragma once

#include <cmath>
#include <string>

#include <cordee/core/text.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// Moves the moments, writes u over the gradient, and returns it.
template <class Real>
struct lamb_direction {
  adam_moments<Real> moments;
  const Real* w;
  Real *m, *q, *u;
  Real decay;

  template <class At>
  constexpr typename At::number operator()(At at) const {
    const typename At::number direction = at.limited(moments.move(at, m, q, u) + decay * at(w));
    at.put(u, direction);
    return direction;
  }
};

/// With the moments that stand on the device, and the decay of a segment.
template <class Real>
struct lamb_directions {
  const adam_moments<Real>* moments;
  const Real* w;
  Real *m, *q, *u;
  Real decay;
  kinds decays;

  CORDEE_HOST_DEVICE lamb_direction<Real> of(kind what, std::size_t) const {
    return {*moments, w, m, q, u, decays(what) ? decay : 0};
  }
};

/// w <- w - rate u
template <class Real>
struct descent {
  Real* w;
  const Real* u;
  Real rate;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(w, at.limited(at(w) - rate * at(u)));
  }
};
/// With the ratio of a segment's norms in its rate.
template <class Rule, class Real>
struct lamb_descent {
  Rule rule;
  kinds adapts;
  const moment* now;
  const double *weight_squares, *step_squares;
  Real* w;
  const Real* u;

  CORDEE_HOST_DEVICE descent<Real> of(kind what, std::size_t k) const {
    const double ratio =
        adapts(what) ? rule.ratio(std::sqrt(weight_squares[k]), std::sqrt(step_squares[k])) : 1;
    return {w, u, factor<Real>(now->rate * ratio)};
  }
};

template <class Rule, class Real, class D>
void lamb_accept(const Rule& rule, const view<Real, D, 2>& v, const moment& now,
                 typename D::stream s) {
  Real *const w = v.weights.data, *const u = v.grads.data;
  with_moments(rule, v, now, s, [&](const auto* moments) {
    const lamb_directions<Real> directions{moments,         w, v.slots[0].data,
                                           v.slots[1].data, u, factor<Real>(rule.weight_decay),
                                           rule.decays};
    segmented_squares<Real>(s, v.segments, directions, v.sums);
  });
  segmented_for<Real>(s, v.segments,
                      lamb_descent<Rule, Real>{rule, rule.adapts, moment_of(v, now),
                                               v.weight_squares.data, v.sums.data, w, u});
}

}  // namespace detail

struct lamb {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 2;  // m, v
  static constexpr when norms = when::before_accept;
  static constexpr bool replays = true;

  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  kinds decays = kind::weight;
  kinds adapts = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    detail::lamb_accept(*this, v, now, s);
  }

  /// The trust ratio of a segment with these norms of the weights and of u.
  [[nodiscard]] CORDEE_HOST_DEVICE double ratio(double weight_norm, double step_norm) const {
    return trust_ratio(1, weight_norm, step_norm, 0, 0);
  }

  void check() const { detail::check_adam("lamb", *this); }
  [[nodiscard]] std::string describe() const {
    return text("lamb, betas ", beta1, " and ", beta2, ", epsilon ", epsilon, ", weight decay ",
                weight_decay, " inside the trust ratio");
  }
};

struct nvlamb {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 2;  // m, v
  static constexpr when norms = when::before_accept;
  static constexpr bool replays = true;
  static constexpr kinds adapts = trainable;

  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  kinds decays = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    detail::lamb_accept(*this, v, now, s);
  }

  /// The trust ratio of a segment with these norms of the weights and of u.
  [[nodiscard]] CORDEE_HOST_DEVICE double ratio(double weight_norm, double step_norm) const {
    return trust_ratio(1, weight_norm, step_norm, 0, 0);
  }

  void check() const { detail::check_adam("nvlamb", *this); }
  [[nodiscard]] std::string describe() const {
    return text("nvlamb, betas ", beta1, " and ", beta2, ", epsilon ", epsilon, ", weight decay ",
                weight_decay, " inside the trust ratio, which every segment takes");
  }
};

}  // namespace cordee::inline CORDEE_ABI
