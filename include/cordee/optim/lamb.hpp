// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LAMB: Adam's direction with weight decay, in steps proportional to the norm of the weights (You
// et al. 2019).
//
//   m^, v^ as in adamw.hpp
//   u = m^ / (sqrt(v^) + epsilon) + weight_decay w
//   w <- w - lr (|w| / |u|) u                        per segment; the ratio is 1 if |w| or |u| is 0
//
// `lamb` adapts the weights alone and updates the other kinds at the whole learning rate, as
// Google's reference, apex and timm do. `nvlamb` adapts every segment, batch norm and biases too,
// as the algorithm is printed in the paper; `decay_on` has the same default in both. NVIDIA's
// implementations clip the global norm first, as clip{nvlamb{}, 1.0, 0} does, without an epsilon in
// the clipping; the paper does not. The bias of the moments is corrected.
//
// u replaces the gradient in memory: the second pass reads it, and nothing reads the gradient
// again.
#pragma once

#include <cmath>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>  // for a GPU's stream: ops/gpu/segmented.hpp, by ADL
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/trust_ratio.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// Updates the moments, writes u over the gradient, and returns it.
template <class Real>
struct lamb_direction {
  adam_moments<Real> moments;
  const Real* w;
  Real *m, *v, *u;
  Real decay;

  template <class At>
  constexpr typename At::number operator()(At at) const {
    const typename At::number direction = at.clamped(moments.update(at, m, v, u) + decay * at(w));
    at.put(u, direction);
    return direction;
  }
};

/// With the moments in the device's memory and the decay of a segment.
template <class Real>
struct lamb_direction_body {
  const adam_moments<Real>* moments;
  const Real* w;
  Real *m, *v, *u;
  Real decay;
  kinds decay_on;

  CORDEE_HOST_DEVICE lamb_direction<Real> for_segment(kind what, std::size_t) const {
    return {*moments, w, m, v, u, decay_on(what) ? decay : 0};
  }
};

/// w <- w - lr u
template <class Real>
struct descent {
  Real* w;
  const Real* u;
  Real learning_rate;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(w, at.clamped(at(w) - learning_rate * at(u)));
  }
};
/// With the learning rate times the trust ratio of a segment.
template <class Optimizer, class Real>
struct lamb_descent_body {
  Optimizer optimizer;
  kinds adapt_on;
  const step_info* info;
  const double *squared_weight_norms, *direction_squares;  // one per segment
  Real* w;
  const Real* u;

  CORDEE_HOST_DEVICE descent<Real> for_segment(kind what, std::size_t k) const {
    const double ratio = adapt_on(what) ? optimizer.ratio(std::sqrt(squared_weight_norms[k]),
                                                          std::sqrt(direction_squares[k]))
                                        : 1;
    return {w, u, factor<Real>(info->learning_rate * ratio)};
  }
};

template <class Optimizer, class Real, class D>
void lamb_accept(const Optimizer& optimizer, const optimizer_view<Real, D, 2>& view,
                 const step_info& info, typename D::stream s) {
  Real *const w = view.weights.data, *const u = view.grads.data;
  with_moments(optimizer, view, info, s, [&](const auto* moments) {
    const lamb_direction_body<Real> directions{moments,
                                               w,
                                               view.slots[0].data,
                                               view.slots[1].data,
                                               u,
                                               factor<Real>(optimizer.weight_decay),
                                               optimizer.decay_on};
    segmented_squares<Real>(s, view.segments, directions, view.sums);
  });
  segmented_for<Real>(s, view.segments,
                      lamb_descent_body<Optimizer, Real>{
                          optimizer, optimizer.adapt_on, core::step_info_of(view, info),
                          view.squared_weight_norms.data, view.sums.data, w, u});
}

}  // namespace detail::optim

struct lamb {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 2;  // m, v
  static constexpr norms_needed norms = norms_needed::before_accept;
  static constexpr bool capturable = true;

  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  kinds decay_on = kind::weight;
  kinds adapt_on = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info&,
                           typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    detail::optim::lamb_accept(*this, v, info, s);
  }

  /// The trust ratio of a segment with these norms of w and u.
  [[nodiscard]] CORDEE_HOST_DEVICE double ratio(double weight_norm, double direction_norm) const {
    return detail::optim::trust_ratio(1, weight_norm, direction_norm, 0, 0);
  }

  void check() const { detail::optim::check_adam("lamb", *this); }
  [[nodiscard]] std::string describe() const {
    return concat("lamb, betas ", beta1, " and ", beta2, ", epsilon ", epsilon, ", weight decay ",
                  weight_decay, " inside the trust ratio",
                  detail::optim::describe_kinds("decays", decay_on),
                  detail::optim::describe_kinds("adapts", adapt_on));
  }
};

struct nvlamb {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 2;  // m, v
  static constexpr norms_needed norms = norms_needed::before_accept;
  static constexpr bool capturable = true;
  static constexpr kinds adapt_on = detail::core::trainable;

  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  kinds decay_on = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info&,
                           typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    detail::optim::lamb_accept(*this, v, info, s);
  }

  /// The trust ratio of a segment with these norms of w and u.
  [[nodiscard]] CORDEE_HOST_DEVICE double ratio(double weight_norm, double direction_norm) const {
    return detail::optim::trust_ratio(1, weight_norm, direction_norm, 0, 0);
  }

  void check() const { detail::optim::check_adam("nvlamb", *this); }
  [[nodiscard]] std::string describe() const {
    return concat("nvlamb, betas ", beta1, " and ", beta2, ", epsilon ", epsilon, ", weight decay ",
                  weight_decay, " inside the trust ratio, which adapts every segment",
                  detail::optim::describe_kinds("decays", decay_on));
  }
};

}  // namespace cordee::inline CORDEE_ABI
