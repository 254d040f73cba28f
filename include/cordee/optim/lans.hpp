// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LANS: LAMB with normalized gradients and Nesterov momentum (Zheng et al. 2020).
//
//   n = g / |g| per segment; 0 if |g| is 0     m^, v^ of n as in adamw.hpp
//   r = m^ / (sqrt(v^) + epsilon) + weight_decay w
//   c = n  / (sqrt(v^) + epsilon) + weight_decay w
//   w <- w - lr (beta1 ratio(r) r + (1 - beta1) ratio(c) c)
//   ratio(u) = |w| / |u| per segment; 1 if |w| or |u| is 0
//
// The authors' CUDA code divides by |g| + epsilon; the paper does not. c replaces the gradient in
// memory; r is recomputed from the moments, since its norm must be known before it is used.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/trust_ratio.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// r, from moments that the step has updated.
template <class Real>
struct lans_moment_direction {
  adam_moments<Real> moments;
  const Real *w, *m, *v;
  Real decay;

  template <class At>
  constexpr typename At::number operator()(At at) const {
    return at.clamped(moments.scale1 * at(m) / (moments.scale2 * at.root(at(v)) + moments.epsilon) +
                      decay * at(w));
  }
};

/// Updates the moments, writes c over the gradient, and returns r.
template <class Real>
struct lans_direction {
  lans_moment_direction<Real> r;
  Real *m, *v, *g;
  Real inverse_norm;

  template <class At>
  constexpr typename At::number operator()(At at) const {
    const adam_moments<Real>& c = r.moments;
    const typename At::number n = at.clamped(inverse_norm * at(g), 1),
                              first = c.beta1 * at(m) + c.one_minus_beta1 * n,
                              second = c.beta2 * at(v) + c.one_minus_beta2 * (n * n);
    at.put(m, first);
    at.put(v, second);
    at.put(g, at.clamped(n / (c.scale2 * at.root(second) + c.epsilon) + r.decay * at(r.w)));
    return r(at);
  }
};

/// c, where lans_direction has written it.
template <class Real>
struct lans_gradient_direction {
  const Real* c;

  template <class At>
  constexpr typename At::number operator()(At at) const {
    return at(c);
  }
};

/// w <- w - of_r r - of_c c
template <class Real>
struct lans_descent {
  lans_moment_direction<Real> r;
  Real* w;
  const Real* c;
  Real of_r, of_c;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(w, at.clamped(at(w) - at.clamped(of_r * r(at)) - at.clamped(of_c * at(c))));
  }
};

template <class Optimizer, class Real>
struct lans_direction_body {
  Optimizer optimizer;
  const adam_moments<Real>* moments;
  const double* squared_grad_norms;  // one per segment
  Real *w, *m, *v, *g;

  CORDEE_HOST_DEVICE lans_moment_direction<Real> direction(kind what) const {
    return {*moments, w, m, v, factor<Real>(optimizer.decay_on(what) ? optimizer.weight_decay : 0)};
  }
  CORDEE_HOST_DEVICE lans_direction<Real> for_segment(kind what, std::size_t k) const {
    const double norm = core::sqrt(squared_grad_norms[k]);
    return {direction(what), m, v, g, factor<Real>(norm > 0 ? 1 / norm : 0)};
  }
};

template <class Optimizer, class Real>
struct lans_descent_body {
  lans_direction_body<Optimizer, Real> of;
  const step_info* info;
  const double *squared_weight_norms, *r_squares, *c_squares;  // one per segment

  CORDEE_HOST_DEVICE double rate(kind what, std::size_t k, double share,
                                 const double* squares) const {
    const bool adapts = of.optimizer.adapt_on(what);
    return share * info->learning_rate *
           (adapts ? trust_ratio(1, detail::core::sqrt(squared_weight_norms[k]),
                                 detail::core::sqrt(squares[k]), 0, 0)
                   : 1);
  }
  CORDEE_HOST_DEVICE lans_descent<Real> for_segment(kind what, std::size_t k) const {
    return {of.direction(what), of.w, of.g,
            factor<Real>(rate(what, k, of.optimizer.beta1, r_squares)),
            factor<Real>(rate(what, k, 1 - of.optimizer.beta1, c_squares))};
  }
};

}  // namespace detail::optim

/// LANS: LAMB on normalized gradients, with Nesterov momentum.
struct lans {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 2;                       ///< The moments m and v.
  static constexpr norms_needed norms = norms_needed::before_accept;  ///< Weight norms.
  static constexpr bool capturable = true;                            ///< See OptimizerOn.

  /// Decay rate of the first moment m, and the weight of r in the step. Range: 0 <= beta1 < 1, else
  /// usage_error. Default: as Zheng et al. 2020.
  double beta1 = 0.9;
  /// Decay rate of the second moment v. Range: 0 <= beta2 < 1, else usage_error. Default: as Zheng
  /// et al. 2020.
  double beta2 = 0.999;
  /// Added to the root in r and c. Range: finite, above 0, else usage_error. Default: as the
  /// authors' code.
  double epsilon = 1e-6;
  /// Weight decay: the factor of w in r and c. Range: finite, 0 or more, else usage_error. Default:
  /// as the authors' code.
  double weight_decay = 0.01;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.
  /// Kinds of segments with trust ratios; the others' are 1. Default: as Zheng et al. 2020.
  kinds adapt_on = detail::core::trainable;

  /// Updates m, v and w, and overwrites the gradient with c.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    using namespace detail::optim;
    const detail::device::stream_buffer<double, typename D::stream> c_squares(s, v.segments.size());
    with_moments(*this, v, info, s, [&](const auto* moments) {
      const lans_direction_body<lans, Real> directions{
          *this,           moments,     v.squared_grad_norms.data, v.weights.data, v.slots[0].data,
          v.slots[1].data, v.grads.data};
      // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
      segmented_squares<Real>(s, v.segments, directions, v.sums);
      segmented_squares<Real>(s, v.segments, lans_gradient_direction<Real>{v.grads.data},
                              span_on<double, D>{c_squares.data(), v.segments.size()});
      segmented_for<Real>(s, v.segments,
                          lans_descent_body<lans, Real>{
                              directions, detail::core::step_info_of(v, info),
                              v.squared_weight_norms.data, v.sums.data, c_squares.data()});
    });
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const { detail::optim::check_adam("lans", *this); }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("lans, betas ", beta1, " and ", beta2, ", epsilon ", epsilon, ", weight decay ",
                  weight_decay, " inside the trust ratios",
                  adapt_on == detail::core::trainable ? ", which adapt every segment" : "",
                  detail::optim::describe_kinds("decays", decay_on),
                  adapt_on == detail::core::trainable
                      ? ""
                      : detail::optim::describe_kinds("adapts", adapt_on));
  }
};

}  // namespace cordee::inline CORDEE_ABI
