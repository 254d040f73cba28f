// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Stochastic gradient descent with momentum, in the two common forms.
//
//   form P, sgd                                form C, velocity_sgd
//   d = g + weight_decay w                     d = g + weight_decay w
//   b <- momentum b + (1 - dampening) d        v <- momentum v + lr d
//   w <- w - lr b                              w <- w - v
//   Nesterov: w <- w - lr (d + momentum b)     Nesterov: w <- w - (momentum v + lr d)
//
// In P the learning rate is outside the momentum (PyTorch; the first buffer is d, not dampened;
// without momentum nothing is), in C inside it (Caffe2, TensorFlow). They agree while it is
// constant, and while it changes if C has the momentum correction of Goyal et al. 2017, remark 2.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

struct set_sgd {
  double dampening;
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(decayed_update<Real>& f, const step_info& info) const {
    f.update.gain = static_cast<Real>(info.applied == 0 ? 1 : 1 - dampening);
    f.update.learning_rate = factor<Real>(info.learning_rate);
  }
};
struct set_velocity_sgd {
  corrected_momentum correct;
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(decayed_update<Real>& f, const step_info& info) const {
    correct(f.update.carry, info);
    f.update.gain = factor<Real>(info.learning_rate);
  }
};

/// g <- g + weight_decay w
template <class Optimizer, class Real, class D>
void write_decayed_gradient(const Optimizer& optimizer, const optimizer_view<Real, D, 1>& v,
                            typename D::stream s) {
  const decayed_gradient<Real> decayed{v.weights.data, v.grads.data,
                                       factor<Real>(optimizer.weight_decay)};
  // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
  segmented_for<Real>(s, v.segments, decay_by_kind{optimizer.decay_on, decayed});
}

}  // namespace detail::optim

/// Form P: the learning rate is outside the momentum, as in PyTorch.
struct sgd {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 1;                       ///< The momentum b.
  static constexpr bool capturable = true;              ///< See OptimizerOn.

  /// Momentum: the decay rate of b; 0: none. Range: 0 <= momentum < 1, else usage_error.
  double momentum = 0.9;
  /// L2 penalty: this times w is added to the gradient. Range: finite, 0 or more, else usage_error.
  double weight_decay = 0;
  /// Dampening: after the first step b gains (1 - dampening) d; no effect at momentum 0. Range: 0
  /// <= dampening < 1, else usage_error.
  double dampening = 0;
  /// Whether to use Nesterov momentum. Range: true only with momentum > 0 and without dampening,
  /// else usage_error.
  bool nesterov = false;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Makes a step in form P.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const detail::optim::decayed_update<Real> update(v, momentum, nesterov, weight_decay);
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::with_step_info{detail::optim::set_sgd{momentum > 0 ? dampening : 0},
                                      detail::core::step_info_of(v, info),
                                      detail::optim::decay_by_kind{decay_on, update}});
  }
  /// g <- g + weight_decay w
  template <class Real, class D>
  void write_direction(const optimizer_view<Real, D, slots>& v, const step_info&,
                       typename D::stream s) const {
    detail::optim::write_decayed_gradient(*this, v, s);
  }

  /// Throws usage_error for an option outside its range, or for Nesterov momentum without momentum
  /// or with dampening.
  [[gnu::cold]] void check() const {
    detail::optim::expects_decay_rate("sgd", "momentum", momentum);
    detail::optim::expects_not_negative("sgd", "weight_decay", weight_decay);
    detail::optim::expects_decay_rate("sgd", "dampening", dampening);
    expects(!nesterov || (momentum > 0 && dampening == 0),
            "sgd: Nesterov momentum needs momentum > 0 and no dampening");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("sgd, momentum ", momentum, nesterov ? " (Nesterov)" : "", ", weight decay ",
                  weight_decay, ", learning rate outside the momentum",
                  dampening == 0 ? "" : concat(", dampening ", dampening),
                  detail::optim::describe_kinds("decays", decay_on));
  }
};

/// Form C: the learning rate is inside the momentum, as in Caffe2 and TensorFlow.
struct velocity_sgd {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 1;                       ///< The velocity v.
  static constexpr bool capturable = true;              ///< See OptimizerOn.

  /// Momentum: the decay rate of v; 0: none. Range: 0 <= momentum < 1, else usage_error.
  double momentum = 0.9;
  /// L2 penalty: this times w is added to the gradient. Range: finite, 0 or more, else usage_error.
  double weight_decay = 0;
  bool nesterov = false;  ///< Whether to use Nesterov momentum.
  /// Whether v is multiplied by lr / previous lr before the step, so that a change of the learning
  /// rate acts on the whole momentum. Default: as Goyal et al. 2017. A previous lr of at most 1e-7
  /// leaves v unchanged. A step at learning rate 0 therefore sets v to zero, and later steps start
  /// without momentum, whereas `sgd` keeps its momentum.
  bool momentum_correction = true;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Makes a step in form C.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const detail::optim::decayed_update<Real> update(v, momentum, nesterov, weight_decay);
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::with_step_info{
            detail::optim::set_velocity_sgd{{momentum, momentum_correction}},
            detail::core::step_info_of(v, info), detail::optim::decay_by_kind{decay_on, update}});
  }
  /// g <- g + weight_decay w
  template <class Real, class D>
  void write_direction(const optimizer_view<Real, D, slots>& v, const step_info&,
                       typename D::stream s) const {
    detail::optim::write_decayed_gradient(*this, v, s);
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::expects_decay_rate("velocity_sgd", "momentum", momentum);
    detail::optim::expects_not_negative("velocity_sgd", "weight_decay", weight_decay);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("velocity_sgd, momentum ", momentum, nesterov ? " (Nesterov)" : "",
                  ", weight decay ", weight_decay, ", learning rate inside the momentum",
                  momentum_correction ? ", with momentum correction" : "",
                  detail::optim::describe_kinds("decays", decay_on));
  }
};

}  // namespace cordee::inline CORDEE_ABI
