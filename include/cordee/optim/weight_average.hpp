// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An average of the weights over the run, used by evaluate, save and predict; training continues
// with the weights themselves.
//
//   weight_average{sgd{}, exponential_average{.decay = 0.999}}
//   weight_average{sgd{}, stochastic_average{.start = 20000, .period = 500}}
//
//   exponential_average   a <- decay a + (1 - decay) w     after each step, from a = w of the first
//   stochastic_average    a <- a + (w - a) / n             of the n-th of every `period` steps
//                                                          after step `start`; a = w before
//
// The second is stochastic weight averaging (Izmailov et al. 2018). Steps are applied ones. If
// ranks' weights differ, each averages its own, and the mean over ranks is taken of the averages.
// Batch norm's running statistics are not averaged: those of the last weights are used, as in
// PyTorch's AveragedModel before update_bn.
#pragma once

#include <cstdint>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/ops/fast_divisor.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// average <- keep average + gain w
template <class Real>
struct average_update {
  const Real* w;
  Real* average;
  Real keep = 0, gain = 1;

  [[nodiscard]] CORDEE_HOST_DEVICE bool is_idle() const { return gain == 0; }
  template <class At>
  constexpr void operator()(At at) const {
    at.put(average, keep * at(average) + gain * at(w));
  }
};
/// What kernels compute the gain by: of averages that have one, their prepared form.
template <class Average>
auto prepared(const Average& average) {
  if constexpr (requires { average.prepared(); })
    return average.prepared();
  else
    return average;
}
template <class Prepared>
struct set_average {
  Prepared average;
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(average_update<Real>& f, const step_info& info) const {
    const double gain = average.gain(info.applied);
    f.keep = static_cast<Real>(1 - gain);
    f.gain = static_cast<Real>(gain);
  }
};
template <class Prepared>  // clang 16 does not deduce an aggregate's
set_average(Prepared) -> set_average<Prepared>;

/// stochastic_average's, without a division by the period.
struct stochastic_gain {
  std::int64_t start;
  ops::fast_wide_divisor period;

  [[nodiscard]] CORDEE_HOST_DEVICE double gain(std::int64_t applied) const {
    const std::int64_t since = applied + 1 - start;
    if (since < static_cast<std::int64_t>(period.divisor)) return 1;
    const auto n = static_cast<std::uint64_t>(since);
    return period.divides(n) ? 1 / static_cast<double>(period.quotient(n)) : 0;
  }
};

/// The view of the optimizer inside a wrapper whose slots follow it.
template <int Inner, class Real, class D, int Slots>
optimizer_view<Real, D, Inner> inner_view(const optimizer_view<Real, D, Slots>& v) {
  optimizer_view<Real, D, Inner> inner{v.weights,
                                       v.grads,
                                       {},
                                       v.segments,
                                       v.squared_weight_norms,
                                       v.squared_grad_norms,
                                       v.squared_global_norm,
                                       v.sums,
                                       v.finite,
                                       v.info,
                                       v.numbers};
  for (std::size_t k = 0; k < inner.slots.size(); ++k) inner.slots[k] = v.slots[k];
  return inner;
}

}  // namespace detail::optim

/// Exponential moving average of the weights.
struct exponential_average {
  /// Decay rate of the average. Range: 0 <= decay < 1, else usage_error.
  double decay = 0.999;

  /// Returns the weight of the new weights in the average, after `applied` earlier steps.
  [[nodiscard]] CORDEE_HOST_DEVICE double gain(std::int64_t applied) const {
    return applied == 0 ? 1 : 1 - decay;
  }
  /// Throws usage_error for an option outside its range.
  void check() const { detail::optim::expects_decay_rate("exponential_average", "decay", decay); }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("evaluated by the exponential average of weights, decay ", decay);
  }
};

/// Stochastic weight averaging: the mean of the weights every `period` steps.
struct stochastic_average {
  /// Steps before the average begins. Unit: applied steps. Range: 0 or more, else usage_error.
  std::int64_t start = 0;
  /// Steps between averaged weights. Unit: applied steps. Range: 1 .. 2^31 - 1, else usage_error.
  std::int64_t period = 1;

  /// Returns the weight of the new weights in the average: 1 before it begins, 1/n for the n-th,
  /// else 0.
  [[nodiscard]] double gain(std::int64_t applied) const { return prepared().gain(applied); }
  /// Returns `gain` without a division by the period, for kernels. Requires valid options.
  [[nodiscard]] detail::optim::stochastic_gain prepared() const {
    return {start, detail::ops::fast_wide_divisor(static_cast<int>(period))};
  }
  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    expects(start >= 0, "stochastic_average: start is negative");
    expects(period >= 1, "stochastic_average: the period must be at least 1 step");
    expects(period <= INT32_MAX, "stochastic_average: the period must be below 2^31 steps");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("evaluated by the mean of the weights of every ", period, " steps after step ",
                  start);
  }
};

/// An optimizer that keeps an average of its weights in a slot. Must be the outermost wrapper, else
/// a compile error.
template <class Optimizer, class Average>
struct weight_average {
  static constexpr agreement needs = Optimizer::needs;  ///< That of the wrapped optimizer.
  /// The wrapped optimizer's value.
  static constexpr bool eager = detail::optim::is_eager<Optimizer>;
  /// The wrapped optimizer's slots, then the average.
  static constexpr int slots = Optimizer::slots + 1;
  static constexpr int average_slot = Optimizer::slots;  ///< The last slot.
  /// The wrapped optimizer's value.
  static constexpr norms_needed norms = detail::optim::norms_of<Optimizer>;
  /// The wrapped optimizer's value.
  static constexpr bool capturable = detail::optim::Capturable<Optimizer>;

  Optimizer optimizer{};  ///< Optimizer that trains the weights.
  /// How weights are averaged: `exponential_average`, `stochastic_average`, or a type of your own
  /// with `gain`, `check` and `describe`.
  Average average{};

  /// Proposes as the wrapped optimizer.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    return detail::optim::proposal(optimizer, detail::optim::inner_view<Optimizer::slots>(v), info,
                                   s);
  }
  /// Steps as the wrapped optimizer, then adds the weights to the average.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    optimizer.accept(detail::optim::inner_view<Optimizer::slots>(v), info, s);
    if (!v.finite) return;
    const detail::optim::average_update<Real> update{v.weights.data, v.slots[average_slot].data};
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::with_step_info{detail::optim::set_average{detail::optim::prepared(average)},
                                      detail::core::step_info_of(v, info), update});
  }
  /// average <- w; also initializes the wrapped optimizer's slots.
  template <class Real, class D>
  void initialize(const optimizer_view<Real, D, slots>& v, typename D::stream s) const {
    detail::optim::initialize_slots(optimizer, detail::optim::inner_view<Optimizer::slots>(v), s);
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::average_update<Real>{v.weights.data, v.slots[average_slot].data});
  }

  /// The wrapped optimizer's value.
  [[nodiscard]] cordee::momentum_form momentum_form() const
    requires detail::optim::HasMomentumForm<Optimizer>
  {
    return optimizer.momentum_form();
  }
  /// Throws usage_error for an option outside its range, the wrapped optimizer's too.
  [[gnu::cold]] void check() const {
    detail::optim::check_optimizer(optimizer);
    average.check();
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(detail::core::describe_policy(optimizer), "; ", average.describe());
  }
};

template <class Optimizer, class Average>
weight_average(Optimizer, Average) -> weight_average<Optimizer, Average>;

}  // namespace cordee::inline CORDEE_ABI
