// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Local SGD (Stich 2018) and post-local SGD (Lin et al. 2018): each rank steps on its own gradient,
// and every `period` steps the weights are averaged.
//
//   each step          w_i <- optimizer(w_i, g_i)      momentum and decay of the rank, not averaged
//   each period-th     w   <- W w                      each step while epoch < start_epoch
//
// With an exact reducer W is the mean; with gossip this is DmSGD, with server{comm, asynchronous{}}
// an asynchronous parameter server. `start_epoch` gives post-local SGD: weights are averaged at
// each step before it, best until the learning rate falls for the first time.
//
// The period counts steps, which are equal on all ranks, not applied steps: a rank whose gradient
// is not finite omits its own step and still takes part in the average.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Optimizer>
struct local_steps {
  static constexpr agreement needs = agreement::loose;
  static constexpr bool eager = false;  // the whole local gradient is tested before the local step
  static constexpr int slots = Optimizer::slots;
  static constexpr norms_needed norms = detail::optim::norms_of<Optimizer> == norms_needed::never
                                            ? norms_needed::never
                                            : norms_needed::before_propose;

  Optimizer optimizer{};
  int period = 1;
  double start_epoch = 0;

  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    if (v.finite) optimizer.accept(v, info, s);
    const bool averages = info.epoch < start_epoch || (info.step + 1) % period == 0;
    return averages ? v.weights : span_on<Real, D>{};
  }
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>&, const step_info&, typename D::stream) const {}

  [[gnu::cold]] void check() const {
    detail::optim::expects_not_negative("local_steps", "start_epoch", start_epoch);
    expects(period >= 1, "local_steps: the period must be at least 1 step");
    detail::optim::check_optimizer(optimizer);
  }
  [[nodiscard]] std::string describe() const {
    return concat("local steps of ", detail::core::describe_policy(optimizer),
                  "; weights averaged every ", period, " steps",
                  start_epoch > 0 ? concat(" from epoch ", start_epoch, ", every step before")
                                  : std::string());
  }
};
template <class Optimizer>
local_steps(Optimizer, int, double) -> local_steps<Optimizer>;
template <class Optimizer>
local_steps(Optimizer, int) -> local_steps<Optimizer>;
template <class Optimizer>
local_steps(Optimizer) -> local_steps<Optimizer>;

}  // namespace cordee::inline CORDEE_ABI
