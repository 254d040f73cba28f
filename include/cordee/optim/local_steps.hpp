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
// an asynchronous parameter server.
//
// The period counts steps, which are equal on all ranks, not applied steps: a rank whose gradient
// is not finite omits its own step and still takes part in the average.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

/// Local SGD with any optimizer: steps on the rank's own gradient, with periodic weight averaging.
template <class Optimizer>
struct local_steps {
  static_assert(!detail::optim::compresses_momentum<Optimizer>(),
                "local_steps: one_bit_adam and its like exchange momenta, which local_steps "
                "replaces by weights: wrap adamw, or use zero_one_adam, whose steps are local");
  static constexpr agreement needs = agreement::loose;  ///< Works with any reducer.
  /// The whole local gradient is tested before the local step.
  static constexpr bool eager = false;
  static constexpr int slots = Optimizer::slots;  ///< That of the wrapped optimizer.
  /// Norms of the rank's own gradient, if the wrapped optimizer needs any.
  static constexpr norms_needed norms = detail::optim::local_norms_of<Optimizer>;

  Optimizer optimizer{};  ///< Optimizer of the local steps.
  /// Steps from one weight average to the next. Unit: steps, including skipped ones. Range: 1 or
  /// more, else usage_error.
  int period = 1;
  /// Epoch before which the weights are averaged at each step (post-local SGD). Unit: epochs.
  /// Range: finite, 0 or more, else usage_error. Best set to the epoch at which the learning rate
  /// first drops.
  double start_epoch = 0;

  /// Makes the local step, unless the local gradient is not finite; proposes the weights in steps
  /// that average them, else nothing.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    if (v.finite) optimizer.accept(v, info, s);
    return averages(info) ? v.weights : span_on<Real, D>{};
  }
  /// Whether the weights are averaged in this step.
  [[nodiscard]] bool averages(const step_info& info) const {
    return info.epoch < start_epoch || (info.step + 1) % period == 0;
  }
  /// Does nothing: the reducer has averaged the weights in place.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>&, const step_info&, typename D::stream) const {}

  /// Throws usage_error for an option outside its range, the wrapped optimizer's too.
  [[gnu::cold]] void check() const {
    detail::optim::expects_not_negative("local_steps", "start_epoch", start_epoch);
    expects(period >= 1, "local_steps: the period must be at least 1 step");
    detail::optim::check_optimizer(optimizer);
  }
  /// One line for logs.
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
