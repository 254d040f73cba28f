// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// AdamW: Adam with decoupled weight decay (Kingma and Ba 2014; Loshchilov and Hutter 2017).
//
//   m <- beta1 m + (1 - beta1) g           m^ = m / (1 - beta1^t)
//   v <- beta2 v + (1 - beta2) g^2         v^ = v / (1 - beta2^t)   t: applied steps, this included
//   w <- (1 - lr weight_decay) w - lr m^ / (sqrt(v^) + epsilon)
//
// A gradient beyond 2^63 in single precision (2^511 in double) is limited to that: its square would
// be infinite and remain in v, so that its weight would never move again.
#pragma once

#include <limits>
#include <string>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// The square root of a quarter of the largest number: twice its square is finite.
template <class Real>
CORDEE_HOST_DEVICE Real largest_gradient() {
  return detail::core::ldexp(Real{1}, std::numeric_limits<Real>::max_exponent / 2 - 1);
}
/// Rounded to 0 in this precision, epsilon would give 0 / 0 where every gradient was zero.
template <class Real>
CORDEE_HOST_DEVICE Real nonzero_epsilon(double epsilon) {
  return std::max(static_cast<Real>(epsilon), std::numeric_limits<Real>::min());
}

/// 1 - beta1^t, and the root of 1 - beta2^t, the sums of the moments' weights in step t.
template <class Optimizer>
CORDEE_HOST_DEVICE double first_sum(const Optimizer& optimizer, const step_info& info) {
  return 1 - detail::core::pow(optimizer.beta1, static_cast<double>(info.applied + 1));
}
template <class Optimizer>
CORDEE_HOST_DEVICE double root_of_sum(const Optimizer& optimizer, const step_info& info) {
  return detail::core::sqrt(
      1 - detail::core::pow(optimizer.beta2, static_cast<double>(info.applied + 1)));
}
/// The factor of m / sqrt(v) in m^ / sqrt(v^).
template <class Optimizer>
CORDEE_HOST_DEVICE double bias_correction(const Optimizer& optimizer, const step_info& info) {
  return root_of_sum(optimizer, info) / first_sum(optimizer, info);
}

/// False where the form of the optimizer corrects its step instead.
template <class Optimizer>
constexpr bool corrects_moments = !requires { requires Optimizer::form::corrects_step; };

/// The moments of Adam and the direction that they give: constants of one step, computed once per
/// accept on the device, where the number of applied steps is known.
template <class Real>
struct adam_moments {
  Real beta1, one_minus_beta1, beta2, one_minus_beta2, scale1, scale2, epsilon;
  Real largest = largest_gradient<Real>();

  /// `info.applied` steps were applied before this one.
  template <class Optimizer>
  CORDEE_HOST_DEVICE adam_moments(const Optimizer& optimizer, const step_info& info)
      : beta1(static_cast<Real>(optimizer.beta1)),
        one_minus_beta1(static_cast<Real>(1 - optimizer.beta1)),
        beta2(static_cast<Real>(optimizer.beta2)),
        one_minus_beta2(static_cast<Real>(1 - optimizer.beta2)),
        scale1(static_cast<Real>(corrects_moments<Optimizer> ? 1 / first_sum(optimizer, info) : 1)),
        scale2(
            static_cast<Real>(corrects_moments<Optimizer> ? 1 / root_of_sum(optimizer, info) : 1)),
        epsilon(nonzero_epsilon<Real>(optimizer.epsilon)) {}

  /// Updates both moments at one place by a gradient; returns m^ / (sqrt(v^) + epsilon).
  template <class Place>
  [[gnu::always_inline]] constexpr typename Place::number update(
      Place at, Real* m, Real* v, typename Place::number gradient) const {
    const auto g = at.clamped(gradient, largest);
    const auto first = beta1 * at(m) + one_minus_beta1 * g;
    const auto second = beta2 * at(v) + one_minus_beta2 * (g * g);
    at.put(m, first);
    at.put(v, second);
    return scale1 * first / (scale2 * at.root(second) + epsilon);
  }
  /// Updates the second moment alone; returns g / (sqrt(v^) + epsilon).
  template <class Place>
  [[gnu::always_inline]] constexpr typename Place::number normalized(
      Place at, Real* v, typename Place::number gradient) const {
    const auto g = at.clamped(gradient, largest);
    const auto second = beta2 * at(v) + one_minus_beta2 * (g * g);
    at.put(v, second);
    return g / (scale2 * at.root(second) + epsilon);
  }
};

/// g <- gain (g / (sqrt(v^) + epsilon) + decay w), and returns it.
template <class Real>
struct normalized_direction {
  adam_moments<Real> moments;
  const Real* w;
  Real *v, *g;
  Real decay, gain;

  template <class At>
  constexpr typename At::number operator()(At at) const {
    const typename At::number before = at(w),
                              direction =
                                  gain * at.clamped(at.clamped(moments.normalized(at, v, at(g))) +
                                                    decay * before);
    at.put(g, direction);
    return direction;
  }
};
template <class Real>
struct normalized_direction_body {
  const adam_moments<Real>* moments;
  const Real* w;
  Real *v, *g;
  Real decay, gain;
  kinds decay_on;

  template <class D, class Optimizer>
  normalized_direction_body(const adam_moments<Real>* of_step, const Optimizer& o,
                            const optimizer_view<Real, D, 2>& view, double direction_gain)
      : moments(of_step),
        w(view.weights.data),
        v(view.slots[1].data),
        g(view.grads.data),
        decay(factor<Real>(o.weight_decay)),
        gain(static_cast<Real>(direction_gain)),
        decay_on(o.decay_on) {}
  CORDEE_HOST_DEVICE normalized_direction<Real> for_segment(kind what, std::size_t) const {
    return {*moments, w, v, g, decay_on(what) ? decay : 0, gain};
  }
};

/// *moments <- the constants of this step
template <class Optimizer, class Real>
struct make_moments_op {
  Optimizer optimizer;
  const step_info* info;
  adam_moments<Real>* moments;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const { *moments = {optimizer, *info}; }
};

/// f(address of this step's moments in the device's memory)
template <class Real, class Optimizer, class D, int Slots, class F>
void with_moments(const Optimizer& optimizer, const optimizer_view<Real, D, Slots>& v,
                  const step_info& info, typename D::stream s, const F& f) {
  const device::stream_buffer<adam_moments<Real>, typename D::stream> moments(s, 1);
  // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
  launch_single(
      s, make_moments_op<Optimizer, Real>{optimizer, core::step_info_of(v, info), moments.data()});
  f(moments.data());
}

template <class Real>
struct adamw_update {
  adam_moments<Real> moments;
  Real *w, *m, *v;
  const Real* g;
  Real keep, learning_rate;  // keep: 1 - lr weight_decay

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number kept = at.clamped(keep * at(w));
    at.put(w, at.clamped(kept - learning_rate * at.clamped(moments.update(at, m, v, at(g)))));
  }
};

template <class Real>
struct adamw_body {
  const adam_moments<Real>* moments;
  const step_info* info;
  Real *w, *m, *v;
  const Real* g;
  kinds decay_on;
  double weight_decay;

  CORDEE_HOST_DEVICE adamw_update<Real> for_segment(kind what, std::size_t) const {
    const double keep = decay_on(what) ? 1 - info->learning_rate * weight_decay : 1;
    return {*moments, w, m, v, g, factor<Real>(keep), factor<Real>(info->learning_rate)};
  }
};

template <class Optimizer>
void check_adam(std::string_view name, const Optimizer& optimizer) {
  expects_decay_rate(name, "beta1", optimizer.beta1);
  expects_decay_rate(name, "beta2", optimizer.beta2);
  expects_positive(name, "epsilon", optimizer.epsilon);
  expects_not_negative(name, "weight_decay", optimizer.weight_decay);
}

}  // namespace detail::optim

/// AdamW: the decay is not divided by the root of the second moment.
struct adamw {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 2;                       ///< The moments m and v.
  static constexpr int direction_slots = 1;  ///< v alone, which `write_direction` updates.
  static constexpr bool capturable = true;   ///< See OptimizerOn.

  /// Decay rate of the first moment m. Range: 0 <= beta1 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta1 = 0.9;
  /// Decay rate of the second moment v. Range: 0 <= beta2 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta2 = 0.999;
  /// Added to the root of v^. Range: finite, above 0, else usage_error. Default: as Kingma and Ba
  /// 2014.
  double epsilon = 1e-8;
  /// Decoupled decay: the share of w that a step at learning rate 1 removes. Range: finite, 0 or
  /// more, else usage_error. Default: as PyTorch.
  double weight_decay = 0.01;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Updates m, v and w.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    detail::optim::with_moments(*this, v, info, s, [&](const auto* moments) {
      // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
      segmented_for<Real>(
          s, v.segments,
          detail::optim::adamw_body<Real>{moments, detail::core::step_info_of(v, info),
                                          v.weights.data, v.slots[0].data, v.slots[1].data,
                                          v.grads.data, decay_on, weight_decay});
    });
  }

  /// g <- (1 - beta1) (g / (sqrt(v^) + epsilon) + weight_decay w)
  template <class Real, class D>
  void write_direction(const optimizer_view<Real, D, slots>& v, const step_info& info,
                       typename D::stream s) const {
    detail::optim::with_moments(*this, v, info, s, [&](const auto* moments) {
      // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
      segmented_for<Real>(
          s, v.segments,
          detail::optim::normalized_direction_body<Real>(moments, *this, v, 1 - beta1));
    });
  }

  /// Throws usage_error for an option outside its range.
  void check() const { detail::optim::check_adam("adamw", *this); }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("adamw, betas ", beta1, " and ", beta2, ", epsilon ", epsilon,
                  ", decoupled weight decay ", weight_decay,
                  detail::optim::describe_kinds("decays", decay_on));
  }
};

}  // namespace cordee::inline CORDEE_ABI
