// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// QG-DmSGD, decentralized SGD with quasi-global momentum (Lin et al. 2021): the momentum is a
// running average of the weights' displacements after mixing, so it follows the ranks' common
// direction.
//
//   d_i = g_i + weight_decay w_i
//   z_i = sum_j W_ij (w_j - lr d_j - momentum u_j)  Nesterov: - lr d - momentum (momentum u + lr d)
//   u_i <- smoothing u_i + (1 - smoothing) (w_i - z_i)
//   w_i <- z_i
//
// u is a displacement; the published buffer is u / lr, which is 0 / 0 at lr = 0. With
// `momentum_correction` (u times lr / previous lr before the step, if the previous lr is above
// 1e-7) both are equal under all learning rates but zero. While gradients are constant the momentum
// multiplies them by 1 / (1 - momentum), as elsewhere, but reaches it more slowly: a step keeps
// smoothing + (1 - smoothing) momentum of u, 0.99 by default.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// g <- w - (weight_of_step lr (g + decay w) + weight_of_u u)
template <class Real>
struct quasi_global_trial {
  const Real *w, *u;
  Real* g;
  Real weight_of_u, weight_of_step, decay, learning_rate = 0;

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number step = at.clamped(learning_rate * at.clamped(at(g) + decay * at(w)));
    at.put(g, at.clamped(at(w) - at.clamped(weight_of_step * step + weight_of_u * at(u))));
  }
};

/// u <- carry u + gain (w - z),  w <- z
template <class Real>
struct quasi_global_update {
  Real *w, *u;
  const Real* z;
  Real carry, gain;

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number mixed = at(z);
    at.put(u, at.clamped(carry * at(u) + gain * at.clamped(at(w) - mixed)));
    at.put(w, mixed);
  }
};

struct set_quasi_global {
  corrected_momentum correct;
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(quasi_global_trial<Real>& f, const step_info& info) const {
    correct(f.weight_of_u, info);
    f.learning_rate = factor<Real>(info.learning_rate);
  }
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(quasi_global_update<Real>& f, const step_info& info) const {
    correct(f.carry, info);
  }
};

}  // namespace detail::optim

/// Decentralized SGD with quasi-global momentum.
struct qg_dmsgd {
  static constexpr agreement needs = agreement::mixing;  ///< Mixes trial weights over the ranks.
  static constexpr bool eager = true;  ///< Trial weights need only the bucket's gradient and u.
  static constexpr int slots = 1;      ///< The averaged displacement u.
  static constexpr bool capturable = true;  ///< See OptimizerOn.

  /// Momentum: the factor of u in the step; 0: none. Range: 0 <= momentum < 1, else usage_error.
  double momentum = 0.9;
  /// Decay rate of u. Range: 0 <= smoothing < 1, else usage_error. Default: equal to the momentum,
  /// as published.
  double smoothing = 0.9;
  /// L2 penalty: this times w is added to the gradient. Range: finite, 0 or more, else usage_error.
  double weight_decay = 0;
  bool nesterov = false;  ///< Whether to use Nesterov momentum.
  /// Whether u is multiplied by lr / previous lr before the step (see the header's top). Default:
  /// as published, where the buffer is u / lr.
  bool momentum_correction = true;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Overwrites the gradient with the trial weights and proposes them.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    const double of_u = nesterov ? momentum * momentum : momentum;
    const detail::optim::quasi_global_trial<Real> trial{
        v.weights.data,
        v.slots[0].data,
        v.grads.data,
        static_cast<Real>(of_u),
        static_cast<Real>(nesterov ? 1 + momentum : 1),
        detail::optim::factor<Real>(weight_decay)};
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::with_step_info{detail::optim::set_quasi_global{{of_u, momentum_correction}},
                                      detail::core::step_info_of(v, info),
                                      detail::optim::decay_by_kind{decay_on, trial}});
    return v.grads;
  }
  /// Updates u by the displacement after mixing; w are the mixed weights.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const detail::optim::quasi_global_update<Real> update{
        v.weights.data, v.slots[0].data, v.grads.data, static_cast<Real>(smoothing),
        static_cast<Real>(1 - smoothing)};
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(s, v.segments,
                        detail::optim::with_step_info{
                            detail::optim::set_quasi_global{{smoothing, momentum_correction}},
                            detail::core::step_info_of(v, info), update});
  }

  /// Momentum acts on the disagreement through the average u.
  [[nodiscard]] cordee::momentum_form momentum_form() const {
    return {momentum, nesterov, true, smoothing};
  }
  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::expects_decay_rate("qg_dmsgd", "momentum", momentum);
    detail::optim::expects_decay_rate("qg_dmsgd", "smoothing", smoothing);
    detail::optim::expects_not_negative("qg_dmsgd", "weight_decay", weight_decay);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("qg_dmsgd, momentum ", momentum, nesterov ? " (Nesterov)" : "", ", smoothing ",
                  smoothing, ", weight decay ", weight_decay,
                  momentum_correction ? ", with momentum correction" : "",
                  detail::optim::describe_kinds("decays", decay_on));
  }
};

}  // namespace cordee::inline CORDEE_ABI
