// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Adam (Kingma and Ba 2014), with weight decay as L2 in the gradient, as in PyTorch.
//
//   d = g + weight_decay w,   m^, v^ of d as in adamw.hpp
//   w <- w - lr m^ / (sqrt(v^) + epsilon)
//
// `adamw` applies decay outside the moments; here sqrt(v^) divides it.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

template <class Real>
struct adam_update {
  adam_moments<Real> moments;
  Real *w, *m, *v;
  const Real* g;
  Real decay, learning_rate;

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number before = at(w), d = at(g) + decay * before;
    at.put(w, at.clamped(before - learning_rate * at.clamped(moments.update(at, m, v, d))));
  }
};

template <class Real>
struct adam_body {
  const adam_moments<Real>* moments;
  const step_info* info;
  Real *w, *m, *v;
  const Real* g;
  kinds decay_on;
  Real decay;

  CORDEE_HOST_DEVICE adam_update<Real> for_segment(kind what, std::size_t) const {
    return {*moments, w, m, v, g, decay_on(what) ? decay : 0, factor<Real>(info->learning_rate)};
  }
};

}  // namespace detail::optim

/// Adam with weight decay in the gradient.
struct adam {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 2;                       ///< The moments m and v.
  static constexpr bool capturable = true;              ///< See OptimizerOn.

  /// Decay rate of the first moment m. Range: 0 <= beta1 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta1 = 0.9;
  /// Decay rate of the second moment v. Range: 0 <= beta2 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta2 = 0.999;
  /// Added to the root of v^. Range: finite, above 0, else usage_error. Default: as Kingma and Ba
  /// 2014.
  double epsilon = 1e-8;
  /// L2 penalty: this times w is added to the gradient. Range: finite, 0 or more, else usage_error.
  /// Default: as PyTorch.
  double weight_decay = 0;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Updates m, v and w.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    detail::optim::with_moments(*this, v, info, s, [&](const auto* moments) {
      // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
      segmented_for<Real>(
          s, v.segments,
          detail::optim::adam_body<Real>{
              moments, detail::core::step_info_of(v, info), v.weights.data, v.slots[0].data,
              v.slots[1].data, v.grads.data, decay_on, detail::optim::factor<Real>(weight_decay)});
    });
  }

  /// Throws usage_error for an option outside its range.
  void check() const { detail::optim::check_adam("adam", *this); }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("adam, betas ", beta1, " and ", beta2, ", epsilon ", epsilon,
                  ", weight decay in the gradient ", weight_decay,
                  detail::optim::describe_kinds("decays", decay_on));
  }
};

}  // namespace cordee::inline CORDEE_ABI
