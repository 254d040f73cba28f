// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// RMSprop warm-up: a transition from RMSprop to SGD with momentum in the first epochs (Akiba,
// Suzuki, Fukuda 2017).
//
//   d = g + weight_decay w
//   v <- smoothing v + (1 - smoothing) d^2                          no bias correction
//   u <- momentum u + (a + b / (sqrt(v) + epsilon)) d
//   w <- w - lr u                                                   lr outside the momentum
//
//   a = exp(2 (e - center) / period) / 2        e < center, e: epochs, fractions included
//     = 1/2 + s (e - center) / period           e < center + period / 2
//     = 1                                       after that
//   b = (1 - a) rms_learning_rate / lr          so that lr b does not depend on lr; 0 at lr = 0
//
// The slope s is 1, which makes a smooth at the center and reach 1 at the end of its second branch.
// The paper prints 2, with which a would exceed 1 and b become negative: a is limited to 1.
#pragma once

#include <string>
#include <string_view>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

template <class Real>
struct rmsprop_warmup_update {
  Real *w, *u, *v;
  const Real* g;
  Real momentum, smoothing, one_minus_smoothing, epsilon, decay;
  Real sgd_share = 1, rms_share = 0, learning_rate = 0;  // a, b
  Real largest = largest_gradient<Real>();

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number before = at(w), d = at.clamped(at(g) + decay * before, largest);
    const typename At::number square = smoothing * at(v) + one_minus_smoothing * (d * d);
    at.put(v, square);
    const typename At::number scale = sgd_share + rms_share / (at.root(square) + epsilon);
    const typename At::number step =
        at.clamped(momentum * at(u) + at.clamped(at.clamped(scale) * d));
    at.put(u, step);
    at.put(w, at.clamped(before - learning_rate * step));
  }
};

template <class Optimizer>
struct set_rmsprop_warmup {
  Optimizer optimizer;
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(rmsprop_warmup_update<Real>& f, const step_info& info) const {
    const double lr = info.learning_rate, a = optimizer.sgd_share(info.epoch);
    f.sgd_share = static_cast<Real>(a);
    f.rms_share = factor<Real>(lr > 0 ? (1 - a) * optimizer.rms_learning_rate / lr : 0);
    f.learning_rate = factor<Real>(lr);
  }
};

}  // namespace detail::optim

/// RMSprop in the first epochs, then SGD with momentum.
struct rmsprop_warmup {
  static constexpr agreement needs = agreement::exact;        ///< Steps on the mean gradient.
  static constexpr int slots = 2;                             ///< u and v.
  static constexpr bool capturable = true;                    ///< See OptimizerOn.
  static constexpr std::string_view name = "rmsprop_warmup";  ///< In messages and `describe`.

  /// Momentum: the decay rate of u. Range: 0 <= momentum < 1, else usage_error. Default: as Akiba
  /// et al. 2017.
  double momentum = 0.9;
  /// Decay rate of v, the mean square of the gradient. Range: 0 <= smoothing < 1, else usage_error.
  /// Default: as Akiba et al. 2017.
  double smoothing = 0.99;
  /// Added to the root of v. Range: finite, above 0, else usage_error. Default: as Akiba et al.
  /// 2017.
  double epsilon = 1e-8;
  /// Learning rate of the RMSprop part, which ignores the schedule. Range: finite, 0 or more, else
  /// usage_error. Default: as Akiba et al. 2017.
  double rms_learning_rate = 3e-4;
  /// Epoch at which a is 1/2. Unit: epochs. Range: finite, 0 or more, else usage_error. Default: as
  /// Akiba et al. 2017.
  double center = 10;
  /// Length of the transition, half of which follows `center`. Unit: epochs. Range: finite, above
  /// 0, else usage_error. Default: as Akiba et al. 2017.
  double period = 5;
  /// Slope s of the second branch of a; 2: as printed in the paper. Range: finite, above 0, else
  /// usage_error. Default: makes a smooth at `center`.
  double slope = 1;
  /// L2 penalty: this times w is added to the gradient. Range: finite, 0 or more, else usage_error.
  double weight_decay = 1e-4;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Updates u, v and w with the shares for the step's epoch.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const detail::optim::rmsprop_warmup_update<Real> update{
        v.weights.data,
        v.slots[0].data,
        v.slots[1].data,
        v.grads.data,
        static_cast<Real>(momentum),
        static_cast<Real>(smoothing),
        static_cast<Real>(1 - smoothing),
        detail::optim::nonzero_epsilon<Real>(epsilon),
        detail::optim::factor<Real>(weight_decay)};
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::with_step_info{detail::optim::set_rmsprop_warmup<rmsprop_warmup>{*this},
                                      detail::core::step_info_of(v, info),
                                      detail::optim::decay_by_kind{decay_on, update}});
  }

  /// Returns a, the share of SGD, at this epoch.
  [[nodiscard]] CORDEE_HOST_DEVICE double sgd_share(double epoch) const {
    const double past = (epoch - center) / period;
    if (past < 0) return detail::core::exp(2 * past) / 2;
    return past < 0.5 ? std::min(0.5 + slope * past, 1.0) : 1;
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::expects_decay_rate(name, "momentum", momentum);
    detail::optim::expects_decay_rate(name, "smoothing", smoothing);
    detail::optim::expects_positive(name, "epsilon", epsilon);
    detail::optim::expects_not_negative(name, "rms_learning_rate", rms_learning_rate);
    detail::optim::expects_not_negative(name, "center", center);
    detail::optim::expects_positive(name, "period", period);
    detail::optim::expects_positive(name, "slope", slope);
    detail::optim::expects_not_negative(name, "weight_decay", weight_decay);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(name, ", from RMSprop at learning rate ", rms_learning_rate,
                  " to SGD around epoch ", center, ", period ", period,
                  slope == 1 ? "" : concat(", slope ", slope), ", momentum ", momentum,
                  ", smoothing ", smoothing, ", epsilon ", epsilon, ", weight decay ", weight_decay,
                  detail::optim::describe_kinds("decays", decay_on));
  }
};

}  // namespace cordee::inline CORDEE_ABI
