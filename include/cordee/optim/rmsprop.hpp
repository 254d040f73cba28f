// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// RMSprop (Hinton 2012; centered: Graves 2013), in PyTorch's form: epsilon outside the root, the
// learning rate outside the momentum, weight decay in the gradient.
//
//   d = g + weight_decay w
//   v <- smoothing v + (1 - smoothing) d^2
//   a <- smoothing a + (1 - smoothing) d           only in centered_rmsprop; otherwise a = 0
//   u <- momentum u + d / (sqrt(v - a^2) + epsilon)
//   w <- w - lr u
//
// Gradients are limited as in adamw.hpp.
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

template <class Real, bool Centered>
struct rmsprop_update {
  Real *w, *u, *v, *a;
  const Real* g;
  Real momentum, smoothing, one_minus_smoothing, epsilon, decay, learning_rate = 0;
  Real largest = largest_gradient<Real>();

  template <class Optimizer, class D>
  rmsprop_update(const Optimizer& o, const optimizer_view<Real, D, Optimizer::slots>& view)
      : w(view.weights.data),
        u(view.slots[0].data),
        v(view.slots[1].data),
        a(view.slots[Optimizer::slots - 1].data),
        g(view.grads.data),
        momentum(static_cast<Real>(o.momentum)),
        smoothing(static_cast<Real>(o.smoothing)),
        one_minus_smoothing(static_cast<Real>(1 - o.smoothing)),
        epsilon(nonzero_epsilon<Real>(o.epsilon)),
        decay(factor<Real>(o.weight_decay)) {}

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number before = at(w), d = at.clamped(at(g) + decay * before, largest);
    typename At::number variance = smoothing * at(v) + one_minus_smoothing * (d * d);
    at.put(v, variance);
    if constexpr (Centered) {
      const typename At::number mean = smoothing * at(a) + one_minus_smoothing * d;
      at.put(a, mean);
      variance = at.at_least(variance - mean * mean, 0);  // rounding may make it negative
    }
    const typename At::number step =
        at.clamped(momentum * at(u) + at.clamped(d / (at.root(variance) + epsilon)));
    at.put(u, step);
    at.put(w, at.clamped(before - learning_rate * step));
  }
};

struct set_learning_rate {
  template <class Update>
  CORDEE_HOST_DEVICE void operator()(Update& f, const step_info& info) const {
    f.learning_rate = factor<decltype(f.learning_rate)>(info.learning_rate);
  }
};

template <bool Centered>
struct basic_rmsprop {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = Centered ? 3 : 2;        ///< u and v; if centered, a too.
  static constexpr bool capturable = true;              ///< See OptimizerOn.
  /// The name in messages and `describe`.
  static constexpr const char* name = Centered ? "centered_rmsprop" : "rmsprop";

  /// Smoothing constant: the decay rate of v, and of a (PyTorch's alpha). Range: 0 <= smoothing <
  /// 1, else usage_error. Default: as PyTorch.
  double smoothing = 0.99;
  /// Momentum: the decay rate of u; 0: none. Range: 0 <= momentum < 1, else usage_error. Default:
  /// as PyTorch.
  double momentum = 0;
  /// Added to the root. Range: finite, above 0, else usage_error. Default: as PyTorch.
  double epsilon = 1e-8;
  /// L2 penalty: this times w is added to the gradient. Range: finite, 0 or more, else usage_error.
  /// Default: as PyTorch.
  double weight_decay = 0;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Updates u, v, w and, if centered, a.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        with_step_info{set_learning_rate{}, core::step_info_of(v, info),
                       decay_by_kind{decay_on, rmsprop_update<Real, Centered>(*this, v)}});
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    expects_decay_rate(name, "smoothing", smoothing);
    expects_decay_rate(name, "momentum", momentum);
    expects_positive(name, "epsilon", epsilon);
    expects_not_negative(name, "weight_decay", weight_decay);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(name, ", smoothing ", smoothing, ", momentum ", momentum, ", epsilon ", epsilon,
                  ", weight decay ", weight_decay, describe_kinds("decays", decay_on));
  }
};

}  // namespace detail::optim

/// RMSprop that divides by the root mean square of the gradient.
using rmsprop = detail::optim::basic_rmsprop<false>;
/// RMSprop that divides by the standard deviation of the gradient, around its running mean a.
using centered_rmsprop = detail::optim::basic_rmsprop<true>;

}  // namespace cordee::inline CORDEE_ABI
