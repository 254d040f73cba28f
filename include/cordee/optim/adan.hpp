// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Adan: adaptive Nesterov momentum without a second evaluation (Xie et al. 2022), in the form of
// the authors' code, whose betas are 1 minus those of the paper.
//
//   d = g - the previous step's gradient, 0 in the first step
//   m <- beta1 m + (1 - beta1) g                 m^ = m / (1 - beta1^t)
//   v <- beta2 v + (1 - beta2) d                 v^ = v / (1 - beta2^t)
//   n <- beta3 n + (1 - beta3) (g + beta2 d)^2   n^ = n / (1 - beta3^t)
//   w <- (w - lr (m^ + beta2 v^) / (sqrt(n^) + epsilon)) / (1 + lr weight_decay)
//
// t: applied steps, this included. A skipped step leaves the previous gradient unchanged. Gradients
// are limited as in adamw.hpp, and so is g + beta2 d.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

template <class Real>
struct adan_update {
  Real *w, *m, *v, *n, *previous;
  const Real* g;
  Real beta1, one_minus_beta1, beta2, one_minus_beta2, beta3, one_minus_beta3;
  Real difference;              // 1; 0 in the first step, which has no gradient before it
  Real scale1, scale2, scale3;  // 1 / (1 - beta1^t), beta2 / (1 - beta2^t), 1 / sqrt(1 - beta3^t)
  Real epsilon, learning_rate, shrink;  // shrink: 1 / (1 + lr weight_decay)
  Real largest = largest_gradient<Real>();

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number gradient = at.clamped(at(g), largest),
                              change = difference * (gradient - at(previous)),
                              first = beta1 * at(m) + one_minus_beta1 * gradient,
                              second = beta2 * at(v) + one_minus_beta2 * change,
                              ahead = at.clamped(gradient + beta2 * change, largest),
                              third = beta3 * at(n) + one_minus_beta3 * (ahead * ahead);
    at.put(m, first);
    at.put(v, second);
    at.put(n, third);
    at.put(previous, gradient);
    const typename At::number direction =
        (scale1 * first + scale2 * second) / (scale3 * at.root(third) + epsilon);
    at.put(w, at.clamped(shrink * at.clamped(at(w) - learning_rate * at.clamped(direction))));
  }
};

/// *update <- with the constants of this step
template <class Optimizer, class Real>
struct make_adan_op {
  Optimizer optimizer;
  const step_info* info;
  adan_update<Real> planes;
  adan_update<Real>* update;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const {
    const double t = static_cast<double>(info->applied + 1);
    adan_update<Real> u = planes;
    u.beta1 = static_cast<Real>(optimizer.beta1);
    u.one_minus_beta1 = static_cast<Real>(1 - optimizer.beta1);
    u.beta2 = static_cast<Real>(optimizer.beta2);
    u.one_minus_beta2 = static_cast<Real>(1 - optimizer.beta2);
    u.beta3 = static_cast<Real>(optimizer.beta3);
    u.one_minus_beta3 = static_cast<Real>(1 - optimizer.beta3);
    u.difference = info->applied == 0 ? 0 : 1;
    u.scale1 = static_cast<Real>(1 / (1 - detail::core::pow(optimizer.beta1, t)));
    u.scale2 = static_cast<Real>(optimizer.beta2 / (1 - detail::core::pow(optimizer.beta2, t)));
    u.scale3 = static_cast<Real>(1 / detail::core::sqrt(1 - detail::core::pow(optimizer.beta3, t)));
    u.epsilon = nonzero_epsilon<Real>(optimizer.epsilon);
    u.learning_rate = factor<Real>(info->learning_rate);
    *update = u;
  }
};

template <class Real>
struct adan_body {
  const adan_update<Real>* update;
  const step_info* info;
  double weight_decay;
  kinds decay_on;

  CORDEE_HOST_DEVICE adan_update<Real> for_segment(kind what, std::size_t) const {
    adan_update<Real> u = *update;
    u.shrink =
        static_cast<Real>(1 / (1 + (decay_on(what) ? info->learning_rate * weight_decay : 0)));
    return u;
  }
};

}  // namespace detail::optim

/// Adan: moments of the gradient and of its differences.
struct adan {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 4;           ///< The moments m, v, n, and the previous gradient.
  static constexpr bool capturable = true;  ///< See OptimizerOn.

  /// Decay rate of the first moment m. Range: 0 <= beta1 < 1, else usage_error. Default: as the
  /// authors' code.
  double beta1 = 0.98;
  /// Decay rate of v, the mean of gradient differences, and the weight of the latest one in the
  /// step. Range: 0 <= beta2 < 1, else usage_error. Default: as the authors' code.
  double beta2 = 0.92;
  /// Decay rate of n, the second moment. Range: 0 <= beta3 < 1, else usage_error. Default: as the
  /// authors' code.
  double beta3 = 0.99;
  /// Added to the root of n^. Range: finite, above 0, else usage_error. Default: as the authors'
  /// code.
  double epsilon = 1e-8;
  /// Decoupled decay: a step at learning rate 1 divides w by 1 + weight_decay. Range: finite, 0 or
  /// more, else usage_error. Default: as the authors' code.
  double weight_decay = 0;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Updates the moments, the previous gradient, and w.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    using namespace detail::optim;
    using update = adan_update<Real>;
    update planes{};
    planes.w = v.weights.data;
    planes.m = v.slots[0].data;
    planes.v = v.slots[1].data;
    planes.n = v.slots[2].data;
    planes.previous = v.slots[3].data;
    planes.g = v.grads.data;
    const detail::device::stream_buffer<update, typename D::stream> of_step(s, 1);
    const step_info* const numbers = detail::core::step_info_of(v, info);
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp, ops/gpu/segmented.hpp
    launch_single(s, make_adan_op<adan, Real>{*this, numbers, planes, of_step.data()});
    segmented_for<Real>(s, v.segments,
                        adan_body<Real>{of_step.data(), numbers, weight_decay, decay_on});
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::check_adam("adan", *this);
    detail::optim::expects_decay_rate("adan", "beta3", beta3);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("adan, betas ", beta1, ", ", beta2, " and ", beta3, ", epsilon ", epsilon,
                  ", decoupled weight decay ", weight_decay,
                  detail::optim::describe_kinds("decays", decay_on));
  }
};

}  // namespace cordee::inline CORDEE_ABI
