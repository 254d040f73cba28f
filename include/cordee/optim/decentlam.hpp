// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// DecentLaM: decentralized momentum for large batches (Yuan et al. 2021), with one exchange of
// trial weights per step.
//
//   z_i = sum_j W_ij (w_j - lr (g_j + weight_decay w_j))   proposes the term of j = i, receives z_i
//   u_i <- momentum u_i + (w_i - z_i)
//   w_i <- w_i - u_i                   Nesterov: w_i <- w_i - (w_i - z_i) - momentum u_i
//
// The momentum is built from the mixed displacement, so it does not amplify the bias caused by
// different data on neighboring ranks. u is a displacement; the published buffer is u / lr, which
// is 0 / 0 at the start of warm-up and the end of cosine decay. With `momentum_correction`
// (momentum times lr / previous lr, if the previous lr is above 1e-7), the default, both are equal
// under all learning rates but zero; without it they agree while lr is constant, and a drop of lr
// reaches the momentum over some 1 / (1 - momentum) steps. The disagreement between ranks enters u
// too: comm/topologies/stability.hpp states for which graphs it decays while lr is constant.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/direction.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// g <- w - lr (g + decay w)
template <class Real>
struct trial_point {
  const Real* w;
  Real* g;
  Real learning_rate, decay = 0;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, at.clamped(at(w) - learning_rate * at.clamped(at(g) + decay * at(w))));
  }
};

struct set_trial_point {
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(trial_point<Real>& point, const step_info& info) const {
    point.learning_rate = factor<Real>(info.learning_rate);
  }
};
/// Writes the trial weights over the gradient and returns them.
template <class Real, class D, int Slots>
span_on<Real, D> propose_trial(const optimizer_view<Real, D, Slots>& v, const step_info& info,
                               double decay, kinds decay_on, typename D::stream s) {
  const trial_point<Real> point{v.weights.data, v.grads.data, 0, factor<Real>(decay)};
  // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
  segmented_for<Real>(s, v.segments,
                      with_step_info{set_trial_point{}, core::step_info_of(v, info),
                                     decay_by_kind{decay_on, point}});
  return v.grads;
}

/// The update along w - mixed.
template <class Real>
struct displacement {
  momentum_update<Real> update;
  const Real* mixed;

  template <class At>
  constexpr void operator()(At at) const {
    update(at, at(update.w) - at(mixed));
  }
};

struct set_displacement {
  corrected_momentum correct;
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(displacement<Real>& f, const step_info& info) const {
    correct(f.update.carry, info);
  }
};

/// The mixed weights z lie where the gradient lay.
template <class Real, class D, int Slots>
void displace(const optimizer_view<Real, D, Slots>& v, const step_info& info,
              const momentum_form& form, bool momentum_correction, typename D::stream s) {
  const displacement<Real> update{{v, form.momentum, form.nesterov}, v.grads.data};
  // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
  segmented_for<Real>(s, v.segments,
                      with_step_info{set_displacement{{form.momentum, momentum_correction}},
                                     core::step_info_of(v, info), update});
}

}  // namespace detail::optim

/// DecentLaM with weight decay in the gradient.
struct decentlam {
  static constexpr agreement needs = agreement::mixing;  ///< Mixes trial weights over the ranks.
  static constexpr bool eager = true;       ///< A bucket's trial weights need only its gradient.
  static constexpr int slots = 1;           ///< The displacement u.
  static constexpr bool capturable = true;  ///< See OptimizerOn.

  /// Momentum: the decay rate of u; 0: none. Range: 0 <= momentum < 1, else usage_error.
  double momentum = 0.9;
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
    return detail::optim::propose_trial(v, info, weight_decay, decay_on, s);
  }
  /// Updates u and w by the mixed trial weights.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    detail::optim::displace(v, info, momentum_form(), momentum_correction, s);
  }

  /// Momentum acts on the disagreement as on the weights.
  [[nodiscard]] cordee::momentum_form momentum_form() const { return {momentum, nesterov}; }
  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::expects_decay_rate("decentlam", "momentum", momentum);
    detail::optim::expects_not_negative("decentlam", "weight_decay", weight_decay);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("decentlam, momentum ", momentum, nesterov ? " (Nesterov)" : "",
                  ", weight decay ", weight_decay,
                  momentum_correction ? ", with momentum correction" : "",
                  detail::optim::describe_kinds("decays", decay_on));
  }
};

/// DecentLaM with another optimizer's direction (direction.hpp): its decay, trust ratio and second
/// moment act on the rank's own gradient before mixing; the momentum is DecentLaM's.
template <class Optimizer>
struct decentlam_over {
  static constexpr agreement needs = agreement::mixing;  ///< Mixes trial weights over the ranks.
  /// u, then the slots of the direction.
  static constexpr int slots = 1 + detail::optim::direction_slots<Optimizer>;
  /// False if the direction has a slot, which `propose` writes.
  static constexpr bool eager = slots == 1;
  /// Norms of the rank's own gradient, if the direction has a trust ratio.
  static constexpr norms_needed norms = detail::optim::local_norms_of<Optimizer>;
  /// The wrapped optimizer's value.
  static constexpr bool capturable = detail::optim::Capturable<Optimizer>;

  /// Optimizer that gives the step its direction and momentum. Range: has `write_direction` and
  /// `momentum` or `beta1`, else a compile error.
  Optimizer optimizer{};
  /// Whether u is multiplied by lr / previous lr before the step (see the header's top). Default:
  /// as for `decentlam`.
  bool momentum_correction = true;

  /// Overwrites the gradient with the trial weights along the direction and proposes them.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    detail::optim::write_direction_of(optimizer, v, info, s);
    return detail::optim::propose_trial(v, info, 0, {}, s);
  }
  /// Updates u and w by the mixed trial weights.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    detail::optim::displace(v, info, momentum_form(), momentum_correction, s);
  }

  /// The direction's momentum acts on the disagreement as on the weights.
  [[nodiscard]] cordee::momentum_form momentum_form() const {
    return detail::optim::direction_momentum(optimizer);
  }

  /// Throws usage_error for an option of the wrapped optimizer outside its range.
  void check() const { detail::optim::check_optimizer(optimizer); }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("decentlam over the direction of ", detail::core::describe_policy(optimizer),
                  momentum_correction ? ", with momentum correction" : "");
  }
};
template <class Optimizer>
decentlam_over(Optimizer) -> decentlam_over<Optimizer>;
template <class Optimizer>
decentlam_over(Optimizer, bool) -> decentlam_over<Optimizer>;

}  // namespace cordee::inline CORDEE_ABI
