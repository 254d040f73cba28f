// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Momentum over the averages of local steps: DiLoCo (Douillard et al. 2023) and SlowMo (Wang et al.
// 2019).
//
//   each step          w_i <- optimizer(w_i, g_i)                    local_steps.hpp
//   each period-th     d   <- mean of a - w_i                        the outer gradient
//                      b   <- momentum b + d
//                      a   <- a - learning_rate b                    or (d + momentum b): Nesterov
//                      w_i <- a                                      a: w at the start
//
//   outer_momentum{local_steps{adamw{}, 64}}                         DiLoCo
//   outer_momentum{local_steps{sgd{}, 12}, {.momentum = 0.5, .learning_rate = 1, .nesterov = false,
//                                           .per_learning_rate = true}}    SlowMo: d / lr, lr b
//
//   outer_momentum{local_steps{adamw{}, 64}, {.fragments = 8}}       fragments of Streaming DiLoCo
//                       (Douillard et al. 2025): every 8 steps another eighth of the model averages
//
// a - w_i is exchanged, not w_i, so it may be rounded, as in compressed{ring{comm}, ...}, and a is
// the same on all ranks. Before local_steps' start_epoch a is the mean, and b stays 0. Segments are
// assigned to fragments in turn, block by block; a bucket with segments of several fragments is
// sent for each. A rounding mean also sends, in other fragments' steps, the residual of a segment's
// last d; this is subtracted from w_i, and so is part of its next d. The step waits for the
// exchange; `overlapped` around it lets the exchange take several steps.
//
//   .mixing = 0.5       w_i <- mixing w_i + (1 - mixing) a         Streaming DiLoCo's alpha
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/weight_average.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// g <- scale (a - w)
template <class Real>
struct outer_gradient {
  const Real *w, *a;
  Real* g;
  Real scale;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, at.clamped(scale * (at(a) - at(w))));
  }
};
/// The step of a and b by the mean of the outer gradients; w <- a.
template <class Real>
struct outer_step {
  Real *w, *a, *b;
  const Real* g;
  Real momentum, learning_rate;
  bool nesterov;

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number d = at(g), carried = at.clamped(momentum * at(b) + d);
    const typename At::number next = at.clamped(
        at(a) - at.clamped(learning_rate * (nesterov ? d + momentum * carried : carried)));
    at.put(b, carried);
    at.put(a, next);
    at.put(w, next);
  }
};

/// The outer steps; see outer_momentum.
struct outer_options {
  /// Momentum of the outer steps: the decay rate of b. Range: 0 <= momentum < 1, else usage_error.
  /// Default: as Douillard et al. 2023.
  double momentum = 0.9;
  /// Learning rate of the outer steps; 1 without momentum is the mean. Range: finite, above 0, else
  /// usage_error. Default: as Douillard et al. 2023.
  double learning_rate = 0.7;
  bool nesterov = true;  ///< Whether the momentum is Nesterov's.
  /// Whether d is divided by the learning rate of the schedule and the step multiplied by it, so
  /// that b does not depend on a rate that changes. True: as SlowMo.
  bool per_learning_rate = false;
  /// Weight of the rank's own weights in an average. Range: 0 <= mixing < 1, else usage_error.
  /// Default: as DiLoCo.
  double mixing = 0;
  /// Parts of the model, which average in different steps, a period / fragments apart. Range: 1 to
  /// the period of the local steps, else usage_error.
  int fragments = 1;
  /// Length of a block of segments of one fragment: of segments that begin in the n-th block the
  /// fragment is n mod fragments. Unit: numbers. Range: 1 or more, else usage_error.
  std::size_t fragment_numbers = std::size_t{1} << 20;
};

}  // namespace detail::optim

/// Local steps whose averages feed an outer SGD with momentum; see the header's top.
template <class Optimizer>
struct outer_momentum {
  static_assert(
      requires(const Optimizer& o, const step_info& info) { o.averages(info); },
      "outer_momentum: wrap local_steps, as in outer_momentum{local_steps{adamw{}, 64}}");

  static constexpr agreement needs = agreement::loose;  ///< Steps on the rank's own gradient.
  /// Works over exact reducers and over ones that round.
  static constexpr bool proposes_differences = true;
  static constexpr bool eager = false;                ///< As in local_steps.
  static constexpr int slots = Optimizer::slots + 2;  ///< The local steps', then a and b.
  /// The wrapped optimizer's value.
  static constexpr norms_needed norms = detail::optim::norms_of<Optimizer>;

  Optimizer optimizer{};                 ///< The local steps.
  detail::optim::outer_options outer{};  ///< The outer steps.

  /// Makes the local step. In a step that averages, replaces the gradient by the outer gradient, or
  /// by 0 for segments that do not average, and proposes it; else proposes nothing.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    const auto inner = detail::optim::inner_view<Optimizer::slots>(v);
    detail::optim::proposal(optimizer, inner, info, s);
    bool any = false;
    for (const segment& part : v.segments) any = any || averages(part, info);
    if (!any && !averages(info)) return {};
    for_runs(v, info, [&](const auto& part, bool averages) {
      // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
      segmented_for<Real>(s, part.segments,
                          detail::optim::outer_gradient<Real>{
                              part.weights.data, part.slots[Optimizer::slots].data, part.grads.data,
                              averages ? detail::optim::factor<Real>(1 / rate(info)) : Real{0}});
    });
    return any ? v.grads : span_on<Real, D>{};
  }
  /// Makes the outer step of the segments being averaged.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const bool plain = info.epoch < optimizer.start_epoch;
    const double kept = plain ? 0 : outer.mixing;
    for_runs(v, info, [&](const auto& part, bool averages) {
      if (!averages) return take_owed(part, info, s);
      Real* const a = part.slots[Optimizer::slots].data;
      // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
      segmented_for<Real>(
          s, part.segments,
          detail::optim::outer_step<Real>{
              kept > 0 ? part.grads.data : part.weights.data, a,
              part.slots[Optimizer::slots + 1].data, part.grads.data,
              static_cast<Real>(plain ? 0 : outer.momentum),
              detail::optim::factor<Real>(rate(info) * (plain ? 1 : outer.learning_rate)),
              outer.nesterov && !plain});
      if (kept > 0)
        segmented_for<Real>(
            s, part.segments,
            detail::optim::average_update<Real>{a, part.weights.data, static_cast<Real>(kept),
                                                static_cast<Real>(1 - kept)});
    });
  }
  /// Whether a segment is averaged in this step.
  [[nodiscard]] bool averages(const segment& part, const step_info& info) const {
    return averages_fragment(static_cast<int>(part.offset / outer.fragment_numbers %
                                              static_cast<std::size_t>(outer.fragments)),
                             info);
  }
  /// Whether segments of any fragment are averaged in this step.
  [[nodiscard]] bool averages(const step_info& info) const {
    for (int k = 0; k < outer.fragments; ++k)
      if (averages_fragment(k, info)) return true;
    return false;
  }
  /// a <- w; also initializes the local steps' slots.
  template <class Real, class D>
  void initialize(const optimizer_view<Real, D, slots>& v, typename D::stream s) const {
    detail::optim::initialize_slots(optimizer, detail::optim::inner_view<Optimizer::slots>(v), s);
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::average_update<Real>{v.weights.data, v.slots[Optimizer::slots].data});
  }

  /// Throws usage_error for an option outside its range, or one of the local steps'.
  [[gnu::cold]] void check() const {
    detail::optim::check_optimizer(optimizer);
    detail::optim::expects_decay_rate("outer_momentum", "momentum", outer.momentum);
    detail::optim::expects_decay_rate("outer_momentum", "mixing", outer.mixing);
    detail::optim::expects_positive("outer_momentum", "learning_rate", outer.learning_rate);
    expects(outer.fragments >= 1 && outer.fragments <= optimizer.period,
            "outer_momentum: fragments must be in 1 to the period of the local steps");
    expects(outer.fragment_numbers >= 1, "outer_momentum: fragment_numbers must be at least 1");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("outer momentum ", outer.momentum, outer.nesterov ? " (Nesterov)" : "",
                  ", learning rate ", outer.learning_rate,
                  outer.per_learning_rate ? " times the schedule's" : "",
                  outer.mixing > 0 ? concat(", mixing ", outer.mixing) : "",
                  outer.fragments > 1 ? concat(", of ", outer.fragments, " fragments by blocks of ",
                                               outer.fragment_numbers, " numbers")
                                      : "",
                  ", over ", detail::core::describe_policy(optimizer));
  }

 private:
  [[nodiscard]] bool averages_fragment(std::int64_t fragment, step_info info) const {
    info.step += fragment * optimizer.period / outer.fragments;
    return optimizer.averages(info);
  }
  // w <- w - g, the mean of what ranks owed of the last average; 0 where the exchange rounds not
  template <class View, class Stream>
  void take_owed(const View& part, const step_info& info, Stream s) const {
    using Real = std::remove_pointer_t<decltype(part.weights.data)>;
    if (outer.fragments == 1 || !averages(info)) return;
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(s, part.segments,
                        detail::optim::average_update<Real>{part.grads.data, part.weights.data, 1,
                                                            static_cast<Real>(-rate(info))});
  }
  // f(view, whether it averages) for each run of segments that do, or that do not
  template <class View, class F>
  void for_runs(const View& v, const step_info& info, const F& f) const {
    for (std::size_t first = 0, last = 0; first < v.segments.size(); first = last) {
      const bool due = averages(v.segments[first], info);
      while (last < v.segments.size() && averages(v.segments[last], info) == due) ++last;
      f(detail::optim::part_of(v, first, last - first), due);
    }
  }
  [[nodiscard]] double rate(const step_info& info) const {
    return outer.per_learning_rate && info.learning_rate > 0 ? info.learning_rate : 1;
  }
};
template <class Optimizer>
outer_momentum(Optimizer) -> outer_momentum<Optimizer>;
template <class Optimizer>
outer_momentum(Optimizer, detail::optim::outer_options) -> outer_momentum<Optimizer>;

}  // namespace cordee::inline CORDEE_ABI
