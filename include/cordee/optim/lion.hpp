// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Lion: the sign of an interpolated momentum (Chen et al. 2023).
//
//   w <- (1 - lr weight_decay) w - lr sign(beta1 m + (1 - beta1) g)
//   m <- beta2 m + (1 - beta2) g
//
// Each number moves by lr, or not at all if the sum is exactly 0. The learning rate is therefore 3
// to 10 times smaller than AdamW's, and weight_decay larger by the same factor.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

template <class Real>
struct lion_update {
  Real *w, *m;
  const Real* g;
  Real beta1, one_minus_beta1, beta2, one_minus_beta2, keep, learning_rate;

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number before = at(m), gradient = at(g), kept = at.clamped(keep * at(w));
    const auto direction = at.sign(beta1 * before + one_minus_beta1 * gradient);
    at.put(m, beta2 * before + one_minus_beta2 * gradient);
    at.put(w, at.clamped(kept - learning_rate * direction));
  }
};

template <class Optimizer, class Real>
struct lion_body {
  Optimizer optimizer;
  const step_info* info;
  Real *w, *m;
  const Real* g;

  CORDEE_HOST_DEVICE lion_update<Real> for_segment(kind what, std::size_t) const {
    const double decay = optimizer.decay_on(what) ? optimizer.weight_decay : 0;
    return {w,
            m,
            g,
            static_cast<Real>(optimizer.beta1),
            static_cast<Real>(1 - optimizer.beta1),
            static_cast<Real>(optimizer.beta2),
            static_cast<Real>(1 - optimizer.beta2),
            factor<Real>(1 - info->learning_rate * decay),
            factor<Real>(info->learning_rate)};
  }
};

}  // namespace detail::optim

/// Lion: every weight moves by the learning rate, along the sign of an interpolated momentum.
struct lion {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 1;                       ///< The momentum m.
  static constexpr bool capturable = true;              ///< See OptimizerOn.

  /// Interpolation factor: the weight of m in the direction. Range: 0 <= beta1 < 1, else
  /// usage_error. Default: as Chen et al. 2023.
  double beta1 = 0.9;
  /// Decay rate of m. Range: 0 <= beta2 < 1, else usage_error. Default: as Chen et al. 2023.
  double beta2 = 0.99;
  /// Decoupled decay: the share of w that a step at learning rate 1 removes. Range: finite, 0 or
  /// more, else usage_error. Default: as the authors' code.
  double weight_decay = 0;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Updates m and w.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::lion_body<lion, Real>{*this, detail::core::step_info_of(v, info),
                                             v.weights.data, v.slots[0].data, v.grads.data});
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::expects_decay_rate("lion", "beta1", beta1);
    detail::optim::expects_decay_rate("lion", "beta2", beta2);
    detail::optim::expects_not_negative("lion", "weight_decay", weight_decay);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("lion, betas ", beta1, " and ", beta2, ", decoupled weight decay ", weight_decay,
                  detail::optim::describe_kinds("decays", decay_on));
  }
};

}  // namespace cordee::inline CORDEE_ABI
