// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Lookahead (Zhang et al. 2019): slow weights that follow the optimizer's weights every `period`
// steps.
//
//   each step          w <- optimizer(w)
//   each period-th     a <- a + rate (w - a),  w <- a                     a: w at the start
//
// Steps are applied ones. The optimizer's slots are not reset.
#pragma once

#include <cstdint>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/ops/fast_divisor.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/weight_average.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// slow <- slow + rate (w - slow),  w <- slow
template <class Real>
struct lookahead_update {
  Real *w, *slow;
  Real rate;

  [[nodiscard]] CORDEE_HOST_DEVICE bool is_idle() const { return rate == 0; }
  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number next = (1 - rate) * at(slow) + rate * at(w);
    at.put(slow, next);
    at.put(w, next);
  }
};
struct set_lookahead {
  ops::fast_wide_divisor period;
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(lookahead_update<Real>& f, const step_info& info) const {
    if (!period.divides(static_cast<std::uint64_t>(info.applied) + 1)) f.rate = 0;
  }
};

}  // namespace detail::optim

/// Lookahead: every `period` steps the weights are reset to slow weights that follow them.
template <class Optimizer>
struct lookahead {
  static_assert(Optimizer::needs == agreement::exact,
                "lookahead: wrap it, as in local_steps{lookahead{sgd{}}, 8}");
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  /// The wrapped optimizer's value.
  static constexpr bool eager = detail::optim::is_eager<Optimizer>;
  /// The wrapped optimizer's slots, then the slow weights a.
  static constexpr int slots = Optimizer::slots + 1;
  /// The wrapped optimizer's value.
  static constexpr norms_needed norms = detail::optim::norms_of<Optimizer>;
  /// The wrapped optimizer's value.
  static constexpr bool capturable = detail::optim::Capturable<Optimizer>;

  /// Optimizer of the fast weights. Range: needs an exact mean, else a compile error.
  Optimizer optimizer{};
  /// Steps between two updates of the slow weights. Unit: applied steps. Range: 1 or more, else
  /// usage_error.
  int period = 5;
  /// Interpolation factor: how far the slow weights move to the fast ones (alpha). Range: 0 < rate
  /// <= 1, else usage_error.
  double rate = 0.5;

  /// Proposes as the wrapped optimizer.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    return detail::optim::proposal(optimizer, detail::optim::inner_view<Optimizer::slots>(v), info,
                                   s);
  }
  /// Steps as the wrapped optimizer; each `period`-th time updates a and sets w to it.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    optimizer.accept(detail::optim::inner_view<Optimizer::slots>(v), info, s);
    const detail::optim::lookahead_update<Real> update{
        v.weights.data, v.slots[Optimizer::slots].data, static_cast<Real>(rate)};
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(s, v.segments,
                        detail::optim::with_step_info{
                            detail::optim::set_lookahead{detail::ops::fast_wide_divisor(period)},
                            detail::core::step_info_of(v, info), update});
  }
  /// a <- w; also initializes the wrapped optimizer's slots.
  template <class Real, class D>
  void initialize(const optimizer_view<Real, D, slots>& v, typename D::stream s) const {
    detail::optim::initialize_slots(optimizer, detail::optim::inner_view<Optimizer::slots>(v), s);
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::average_update<Real>{v.weights.data, v.slots[Optimizer::slots].data});
  }

  /// Throws usage_error for an option outside its range, the wrapped optimizer's too.
  [[gnu::cold]] void check() const {
    detail::optim::check_optimizer(optimizer);
    expects(period >= 1, "lookahead: the period must be at least 1 step");
    expects(rate > 0 && rate <= 1, "lookahead: the rate must be in (0, 1]");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("lookahead, every ", period, " steps at rate ", rate, ", of ",
                  detail::core::describe_policy(optimizer));
  }
};
template <class Optimizer>
lookahead(Optimizer) -> lookahead<Optimizer>;
template <class Optimizer>
lookahead(Optimizer, int) -> lookahead<Optimizer>;
template <class Optimizer>
lookahead(Optimizer, int, double) -> lookahead<Optimizer>;

}  // namespace cordee::inline CORDEE_ABI
