// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The direction of an optimizer, for wrappers that have a momentum of their own: `write_direction`
// replaces the gradient of the rank by decay, ratio and scale of the optimizer without its
// momentum. An optimizer with `momentum` gives g + weight_decay w, times its ratio. One with
// `beta1` gives (1 - beta1) times its step without the first moment, since a momentum of beta1
// multiplies a constant direction by 1 / (1 - beta1), where a running average does not. Its second
// moment lies in the last `direction_slots` of its slots.
#pragma once

#include <cstddef>

#include <cordee/core/training_step.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::optim {

/// Planes that `write_direction` reads and writes.
template <class O>
constexpr int direction_slots = 0;
template <class O>
  requires requires { O::direction_slots; }
constexpr int direction_slots<O> = O::direction_slots;

/// The momentum that belongs to the direction.
template <class O>
momentum_form direction_momentum(const O& optimizer) {
  momentum_form form;
  if constexpr (requires { optimizer.momentum; })
    form.momentum = optimizer.momentum;
  else
    form.momentum = optimizer.beta1;
  if constexpr (requires { optimizer.nesterov; }) form.nesterov = optimizer.nesterov;
  return form;
}

/// Gradient <- direction. The wrapper's first slot is its own, the others are the direction's.
template <class O, class Real, class D, int Slots>
void write_direction_of(const O& optimizer, const optimizer_view<Real, D, Slots>& v,
                        const step_info& info, typename D::stream s) {
  static_assert(
      DirectionOn<O, Real, D>,
      "decentlam_over and adapt_while_combine need an optimizer with 'write_direction' and "
      "'momentum' or 'beta1': sgd, velocity_sgd, a form of lars or lamb, adamw, or one of "
      "your own");
  static_assert(Slots == 1 + direction_slots<O>);
  optimizer_view<Real, D, O::slots> inner{v.weights, v.grads, {}, v.segments};
  for (std::size_t k = 1; k < v.slots.size(); ++k)
    inner.slots[inner.slots.size() - v.slots.size() + k] = v.slots[k];
  inner.squared_weight_norms = v.squared_weight_norms;
  inner.squared_grad_norms = v.squared_grad_norms;
  inner.sums = v.sums;
  inner.info = v.info;
  optimizer.write_direction(inner, info, s);
}

}  // namespace cordee::inline CORDEE_ABI::detail::optim
