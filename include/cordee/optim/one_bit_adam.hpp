// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// 1-bit Adam (Tang et al. 2021): Adam until its second moment has settled; then that moment is
// frozen, and the ranks exchange momenta, compressed, with error feedback.
//
//   before epoch start_epoch     m <- beta1 m + (1 - beta1) g     g: the exact mean gradient
//                                v <- beta2 v + (1 - beta2) g^2
//   from there on                m <- compressed mean of beta1 m + (1 - beta1) g_i;   v stays
//   each step                    w <- w - lr (m / (sqrt(v) + epsilon) + weight_decay w)
//
//   trainer{net, one_bit_adam{.start_epoch = 5}, schedule,
//           two_stage{ring{comm}, gathered{comm, scaled_sign{}}, 5}}
//
// As in DeepSpeed's OnebitAdam, there is no bias correction. A sign cannot be zero: where v is zero
// because no gradient has been nonzero, m / (sqrt(v) + epsilon) counts as zero (DeepSpeed's mask).
// The second stage divides by a v that no longer follows the gradients: start it after the learning
// rate's warm-up.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// g <- beta1 m + (1 - beta1) g
template <class Real>
struct local_momentum {
  const Real* m;
  Real* g;
  Real beta1, one_minus_beta1;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, beta1 * at(m) + one_minus_beta1 * at(g));
  }
};

/// Returns the gradient, in steps that exchange momenta overwritten by the rank's own one.
template <class O, class Real, class D>
span_on<Real, D> gradient_or_momentum(const O& optimizer,
                                      const optimizer_view<Real, D, O::slots>& v,
                                      const step_info& info, typename D::stream s) {
  // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
  if (optimizer.compresses(info))
    segmented_for<Real>(
        s, v.segments,
        local_momentum<Real>{v.slots[0].data, v.grads.data, static_cast<Real>(optimizer.beta1),
                             static_cast<Real>(1 - optimizer.beta1)});
  return v.grads;
}

/// The step by a gradient, or by a momentum that the ranks have in common.
template <class Real>
struct one_bit_update {
  Real *w, *m, *v;
  const Real* g;
  Real beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon, keep, learning_rate;
  Real largest = largest_gradient<Real>();

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number gradient = at.clamped(at(g), largest),
                              first = beta1 * at(m) + one_minus_beta1 * gradient,
                              second = beta2 * at(v) + one_minus_beta2 * (gradient * gradient);
    at.put(m, first);
    at.put(v, second);
    const auto direction = at.sign(second) * first / (at.root(second) + epsilon);
    at.put(w, at.clamped(at.clamped(keep * at(w)) - at.clamped(learning_rate * direction)));
  }
};

template <class Optimizer, class Real>
struct one_bit_body {
  Optimizer optimizer;
  const step_info* info;
  Real *w, *m, *v;
  const Real* g;

  CORDEE_HOST_DEVICE one_bit_update<Real> for_segment(kind what, std::size_t) const {
    const bool compressed = optimizer.compresses(*info);
    const double decay = optimizer.decay_on(what) ? optimizer.weight_decay : 0,
                 beta1 = compressed ? 0 : optimizer.beta1, beta2 = compressed ? 1 : optimizer.beta2;
    return {w,
            m,
            v,
            g,
            static_cast<Real>(beta1),
            static_cast<Real>(1 - beta1),
            static_cast<Real>(beta2),
            static_cast<Real>(1 - beta2),
            nonzero_epsilon<Real>(optimizer.epsilon),
            factor<Real>(1 - info->learning_rate * decay),
            factor<Real>(info->learning_rate)};
  }
};

}  // namespace detail::optim

/// Adam whose momentum is exchanged compressed, with a frozen second moment.
struct one_bit_adam {
  static constexpr agreement needs = agreement::exact;  ///< Steps on a mean.
  static constexpr int slots = 2;                       ///< The moments m and v.
  static constexpr bool eager = true;                   ///< See OptimizerOn.
  /// The warm-up needs an exact mean: two_stage, or a reducer that never rounds.
  static constexpr bool compresses_momentum = true;
  static constexpr bool whole_tensors = true;  ///< Each rank needs all of m: not over sharded.

  /// Decay rate of the first moment m. Range: 0 <= beta1 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta1 = 0.9;
  /// Decay rate of the second moment v, during warm-up. Range: 0 <= beta2 < 1, else usage_error.
  /// Default: as Kingma and Ba 2014.
  double beta2 = 0.999;
  /// Added to the root of v. Range: finite, above 0, else usage_error. Default: as Kingma and Ba
  /// 2014.
  double epsilon = 1e-8;
  /// Decoupled decay: the share of w that a step at learning rate 1 removes. Range: finite, 0 or
  /// more, else usage_error. Default: as DeepSpeed.
  double weight_decay = 0;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.
  /// Epoch at which the warm-up ends, also in the reducer's two_stage. Unit: epochs. Range: finite,
  /// 0 or more, else usage_error.
  double start_epoch = 1;

  /// Whether the ranks exchange momenta in this step.
  [[nodiscard]] CORDEE_HOST_DEVICE bool compresses(const step_info& info) const {
    return info.epoch >= start_epoch;
  }
  /// Proposes the gradient or, after the warm-up, the rank's own momentum.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    return detail::optim::gradient_or_momentum(*this, v, info, s);
  }
  /// Updates m, during warm-up v, and w.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(s, v.segments,
                        detail::optim::one_bit_body<one_bit_adam, Real>{
                            *this, detail::core::step_info_of(v, info), v.weights.data,
                            v.slots[0].data, v.slots[1].data, v.grads.data});
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::check_adam("one_bit_adam", *this);
    detail::optim::expects_not_negative("one_bit_adam", "start_epoch", start_epoch);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("1-bit Adam, betas ", beta1, " and ", beta2, ", epsilon ", epsilon,
                  ", decoupled weight decay ", weight_decay,
                  detail::optim::describe_kinds("decays", decay_on),
                  "; momenta exchanged, under a constant second moment, from epoch ", start_epoch);
  }
};

}  // namespace cordee::inline CORDEE_ABI
