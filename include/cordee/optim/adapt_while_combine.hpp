// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Decentralized SGD that exchanges weights while their gradient is computed (Lian et al. 2017;
// BlueFog: AdaptWithCombine). The gradient is not mixed, and is evaluated at the weights before
// mixing:
//
//   d_i = write_direction of `optimizer` at w_i, for sgd g_i + weight_decay w_i
//   b_i <- momentum b_i + d_i
//   w_i <- sum_j W_ij w_j - lr b_i                Nesterov: - lr (d_i + momentum b_i)
//
// The other orders are local_steps{sgd{}, 1} over gossip, which adapts, then combines:
//
//   w_i <- sum_j W_ij (w_j - lr b_j)
//
// and combine-then-adapt, which is the same iteration: its y are the weights of local_steps, from
// the same start.
//
//   y_i = sum_j W_ij w_j,   w_i <- y_i - lr b_i(y_i)
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/optim/direction.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// The update along a direction at the learning rate.
template <class Real>
struct directed_update {
  momentum_update<Real> update;
  const Real* direction;

  template <class At>
  constexpr void operator()(At at) const {
    update(at, at(direction));
  }
};
struct set_directed {
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(directed_update<Real>& f, const step_info& info) const {
    f.update.learning_rate = factor<Real>(info.learning_rate);
  }
};

}  // namespace detail::optim

/// Decentralized SGD along an optimizer's direction; weights are mixed while the gradient is
/// computed.
template <class Optimizer>
struct adapt_while_combine {
  static constexpr agreement needs = agreement::mixing;  ///< Mixes the weights over the ranks.
  /// b, then the slots of the direction.
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

  /// Overwrites the gradient with the direction and proposes the weights.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    detail::optim::write_direction_of(optimizer, v, info, s);
    return v.weights;
  }
  /// Updates b, and w from the mixed weights.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const auto form = detail::optim::direction_momentum(optimizer);
    const detail::optim::directed_update<Real> update{{v, form.momentum, form.nesterov},
                                                      v.grads.data};
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(s, v.segments,
                        detail::optim::with_step_info{detail::optim::set_directed{},
                                                      detail::core::step_info_of(v, info), update});
  }

  /// Throws usage_error for an option of the wrapped optimizer outside its range.
  void check() const { detail::optim::check_optimizer(optimizer); }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("adapt while combine, along the direction of ",
                  detail::core::describe_policy(optimizer));
  }
};
template <class Optimizer>
adapt_while_combine(Optimizer) -> adapt_while_combine<Optimizer>;

}  // namespace cordee::inline CORDEE_ABI
