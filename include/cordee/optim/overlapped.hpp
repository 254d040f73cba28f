// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Averages that take several steps while the ranks continue: the overlapped communication of
// Streaming DiLoCo (Douillard et al. 2025), over outer_momentum.
//
//   step t, in which a fragment averages    d   <- a - w_i, whose mean over the ranks begins
//   the next `steps` steps                  w_i <- optimizer(w_i, g_i)
//   at the end of the last of them          b, a <- the outer step by the mean of d
//                                           w_i <- mixing w_i + (1 - mixing) a
//
//   overlapped{outer_momentum{local_steps{adamw{}, 64}, {.fragments = 8, .mixing = 0.5}}, 5}
//
// d has its own slot, which the courier's thread mixes during the next steps
// (train/step/delayed_exchange.hpp). One mean is in flight at a time: the next fragment averages
// later than that. A checkpoint waits for the mean and saves it, so a resumed run has the same
// bits; the end of a run drops it. If the exchange is work of a GPU's stream, the step that begins
// it waits; the numbers are the same.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/outer_momentum.hpp>
#include <cordee/optim/weight_average.hpp>

namespace cordee::inline CORDEE_ABI {

/// Outer steps that accept each average a few steps after it begins; see the header's top.
template <class Optimizer>
struct overlapped {
  static_assert(
      requires { requires Optimizer::proposes_differences; } &&
          requires(const Optimizer& o) { o.outer; },
      "overlapped: wrap outer_momentum, as in overlapped{outer_momentum{local_steps{adamw{}, "
      "64}}}");

  static constexpr agreement needs = agreement::loose;  ///< Steps on the rank's own gradient.
  static constexpr bool proposes_differences = true;    ///< As outer_momentum.
  static constexpr bool eager = false;                  ///< As local_steps.
  static constexpr bool delays_exchange = true;         ///< See train/step/delayed_exchange.hpp.
  static constexpr int slots = Optimizer::slots + 1;    ///< Those of the outer steps, then d.
  /// The wrapped optimizer's value.
  static constexpr norms_needed norms = detail::optim::norms_of<Optimizer>;

  Optimizer optimizer{};  ///< The outer steps.
  /// Steps from the beginning of an average to its acceptance. Unit: steps. Range: 1 or more, and
  /// less than the steps between the averages of two fragments, period / fragments, else
  /// usage_error.
  int steps = 1;

  /// As the outer steps; proposes d.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    const auto inner = detail::optim::inner_view<Optimizer::slots>(v);
    const bool posts = !detail::optim::proposal(optimizer, inner, info, s).empty();
    if (!optimizer.averages(info)) return {};
    const span_on<Real, D> d = v.slots[Optimizer::slots];
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(s, v.segments, detail::optim::average_update<Real>{v.grads.data, d.data});
    return posts ? d : span_on<Real, D>{};
  }
  /// Makes the outer step of the segments whose average began `steps` steps earlier.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    if (info.step < steps) return;
    step_info begun = info;
    begun.step -= steps;
    auto inner = detail::optim::inner_view<Optimizer::slots>(v);
    inner.grads = v.slots[Optimizer::slots];
    optimizer.accept(inner, begun, s);
  }
  /// Initializes the slots of the outer steps.
  template <class Real, class D>
  void initialize(const optimizer_view<Real, D, slots>& v, typename D::stream s) const {
    detail::optim::initialize_slots(optimizer, detail::optim::inner_view<Optimizer::slots>(v), s);
  }

  /// Throws usage_error for an option outside its range, or one of the outer steps'.
  [[gnu::cold]] void check() const {
    detail::optim::check_optimizer(optimizer);
    expects(steps >= 1 && steps < optimizer.optimizer.period / optimizer.outer.fragments,
            "overlapped: steps must be at least 1, and less than the local steps' period by the "
            "number of fragments");
    expects(optimizer.optimizer.start_epoch == 0,
            "overlapped: start_epoch of local_steps must be 0: averages of each step end in it");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(detail::core::describe_policy(optimizer), "; averages accepted ", steps,
                  steps == 1 ? " step" : " steps", " later");
  }
};
template <class Optimizer>
overlapped(Optimizer) -> overlapped<Optimizer>;
template <class Optimizer>
overlapped(Optimizer, int) -> overlapped<Optimizer>;

}  // namespace cordee::inline CORDEE_ABI
