// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// 0/1 Adam (Lu et al. 2022): Adam whose second moment is updated ever more rarely and then frozen;
// after that each rank makes local steps, and the ranks exchange the sum of their steps,
// compressed, ever more rarely. With D = sqrt(v) + epsilon:
//
//   steps 0 .. var_freeze_step  m   <- beta1 m + (1 - beta1) g
//     variance steps            v   <- beta2 v + (1 - beta2) g^2     g: the exact mean gradient
//     others                    v stays                              g: its compressed mean
//                               w   <- (1 - lr weight_decay) w - lr m / D
//   from there on               m_i <- beta1 m_i + (1 - beta1) g_i
//                               w_i <- (1 - lr weight_decay) w_i - lr m_i / D
//                               a   <- (1 - lr weight_decay) a
//     exchange steps            u   <- compressed mean of (a - w_i) D    a: w at the last exchange
//                               m_i <- u / S;   w_i, a <- a - u / D      S: sum of lr since then
//
//   variance steps   multiples of an interval that doubles after var_update_scaler of them
//   exchange steps   multiples of an interval that doubles every local_step_scaler steps
//
//   trainer{net, zero_one_adam{.var_freeze_step = 2000}, schedule,
//           two_stage{ring{comm}, gathered{comm, scaled_sign{}}, 0}}
//
// This is DeepSpeed's ZeroOneAdam. The paper exchanges u from the first step on and, in variance
// steps, also the gradient; here each step has one exchange. There is no bias correction, and where
// v is zero a step counts as zero, as in one_bit_adam.hpp. Unlike in DeepSpeed, the decay is not
// exchanged, as it would enter m through u (the paper has no decay); a - w_i replaces the sum of
// steps, so that an exchange leaves all ranks the same bits; and a single rank updates m in every
// step, not only in variance steps. A rank whose gradient is not finite exchanges a zero gradient,
// or omits its own step.
#pragma once

#include <cstdint>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/summed_steps.hpp>
#include <cordee/optim/weight_average.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// Whether step t, from 1, is a multiple of the interval, which is 1 at first and doubles after
/// every `scaler` multiples.
constexpr bool in_doubling_intervals(std::int64_t t, std::int64_t scaler) {
  std::int64_t interval = 1, last = scaler;  // the last step of this interval
  while (t > last) {
    interval *= 2;
    last += scaler * interval;
  }
  return t % interval == 0;
}

/// The step by a gradient that all ranks have, or by the rank's own.
template <class Optimizer, class Real>
struct zero_one_body {
  Optimizer optimizer;
  const step_info* info;
  Real *w, *m, *v;
  const Real* g;
  double beta2;  // 1 where v stays: by the host, since integer divisions are slow in kernels

  CORDEE_HOST_DEVICE one_bit_update<Real> for_segment(kind what, std::size_t) const {
    const double decay = optimizer.decay_on(what) ? optimizer.weight_decay : 0;
    return {w,
            m,
            v,
            g,
            static_cast<Real>(optimizer.beta1),
            static_cast<Real>(1 - optimizer.beta1),
            static_cast<Real>(beta2),
            static_cast<Real>(1 - beta2),
            nonzero_epsilon<Real>(optimizer.epsilon),
            factor<Real>(1 - info->learning_rate * decay),
            factor<Real>(info->learning_rate)};
  }
};

/// g <- 0, whatever it was
template <class Real>
struct zero_gradient {
  Real* g;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, at.zero());
  }
};

}  // namespace detail::optim

/// 0/1 Adam: the second moment is updated ever more rarely, then local steps run between compressed
/// exchanges; see the header's top.
struct zero_one_adam {
  /// A rank steps on its own gradient; weights differ between exchanges.
  static constexpr agreement needs = agreement::loose;
  /// What is exchanged may be rounded, unlike weights.
  static constexpr bool proposes_differences = true;
  /// Variance steps need an exact mean: two_stage, or a reducer that never rounds.
  static constexpr bool compresses_momentum = true;
  static constexpr bool eager = false;       ///< As local_steps.
  static constexpr int slots = 3;            ///< The moments m and v, then a.
  static constexpr int segment_numbers = 1;  ///< The sum of learning rates.

  /// Decay rate of the first moment m. Range: 0 <= beta1 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta1 = 0.9;
  /// Decay rate of the second moment v, in variance steps. Range: 0 <= beta2 < 1, else usage_error.
  /// Default: as Kingma and Ba 2014.
  double beta2 = 0.999;
  /// Added to the root of v. Range: finite, above 0, else usage_error. Default: as Kingma and Ba
  /// 2014.
  double epsilon = 1e-8;
  /// Decoupled decay: the share of w that a step at learning rate 1 removes. Range: finite, 0 or
  /// more, else usage_error. Default: as DeepSpeed.
  double weight_decay = 0;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.
  /// Last step, from 0, in which v may be updated; local steps follow. Unit: steps, including
  /// skipped ones. Range: 0 or more, else usage_error. Default: as DeepSpeed. Best set to the end
  /// of the learning rate's warm-up.
  std::int64_t var_freeze_step = 100000;
  /// Variance steps after which their interval doubles; kappa in the paper. Range: 1 or more, else
  /// usage_error. Default: as DeepSpeed.
  std::int64_t var_update_scaler = 16;
  /// Local steps after which the interval between exchanges doubles. Unit: steps. Range: 1 or more,
  /// else usage_error. Default: as DeepSpeed.
  std::int64_t local_step_scaler = 32678;
  /// Largest interval between exchanges; H in the paper. Unit: steps. Range: 1 or more, else
  /// usage_error. Default: as DeepSpeed.
  std::int64_t local_step_clipper = 16;

  /// Whether v still changes in this step or later ones, so that all ranks make the same step.
  [[nodiscard]] bool steps_alike(const step_info& info) const {
    return info.step <= var_freeze_step;
  }
  /// Whether this is a variance step.
  [[nodiscard]] bool updates_variance(const step_info& info) const {
    return steps_alike(info) &&
           detail::optim::in_doubling_intervals(info.step + 1, var_update_scaler);
  }
  /// Steps between exchanges at this step. Unit: steps.
  [[nodiscard]] std::int64_t exchange_interval(const step_info& info) const {
    if (steps_alike(info)) return 1;
    std::int64_t interval = 1;
    for (std::int64_t n = (info.step - var_freeze_step - 1) / local_step_scaler;
         n > 0 && interval < local_step_clipper; --n)
      interval = interval > local_step_clipper / 2 ? local_step_clipper : 2 * interval;
    return interval;
  }
  /// Whether the ranks exchange something in this step.
  [[nodiscard]] bool exchanges(const step_info& info) const {
    return (info.step + 1) % exchange_interval(info) == 0;
  }
  /// Whether this step exchanges a mean that must be exact.
  [[nodiscard]] bool exchanges_exactly(const step_info& info) const {
    return updates_variance(info);
  }
  /// Whether this step exchanges the first sum of steps, to which residuals of gradients do not
  /// apply.
  [[nodiscard]] bool discards_residuals(const step_info& info) const {
    return info.step - 1 == var_freeze_step;
  }

  /// Proposes the gradient; after var_freeze_step makes the rank's own step, and proposes the sum
  /// of steps when it is exchanged.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    if (steps_alike(info)) {
      if (!v.finite)
        segmented_for<Real>(s, v.segments, detail::optim::zero_gradient<Real>{v.grads.data});
      return v.grads;
    }
    const step_info* const at = detail::core::step_info_of(v, info);
    Real *const w = v.weights.data, *const a = v.slots[2].data;
    if (discards_residuals(info))
      segmented_for<Real>(s, v.segments, detail::optim::average_update<Real>{w, a});
    const auto decay = [&](Real* x) {
      if (weight_decay > 0)
        segmented_for<Real>(s, v.segments,
                            detail::optim::decayed_numbers<Real>{x, at, weight_decay, decay_on});
    };
    v.finite ? step(v, info, s) : decay(w);
    decay(a);
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    for_each(s, v.segments.size(), detail::optim::rate_sum_op{at, numbers(v)});
    if (!exchanges(info)) return {};
    segmented_for<Real>(
        s, v.segments,
        detail::optim::summed_steps<Real>{w, a, v.slots[1].data, v.grads.data,
                                          detail::optim::nonzero_epsilon<Real>(epsilon)});
    return v.grads;
  }
  /// Steps by the mean gradient, or by the mean of the ranks' sums of steps.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    if (steps_alike(info)) return step(v, info, s);
    if (!exchanges(info)) return;
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::exchanged_steps<Real>{v.weights.data, v.slots[0].data, v.slots[2].data,
                                             v.slots[1].data, v.grads.data, numbers(v),
                                             detail::optim::nonzero_epsilon<Real>(epsilon)});
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    for_each(s, v.segments.size(), detail::optim::rate_sum_op{nullptr, numbers(v)});
  }
  /// a <- w; resets the sum of learning rates.
  template <class Real, class D>
  void initialize(const optimizer_view<Real, D, slots>& v, typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp, device/gpu_kernel.hpp
    segmented_for<Real>(s, v.segments,
                        detail::optim::average_update<Real>{v.weights.data, v.slots[2].data});
    for_each(s, v.segments.size(), detail::optim::rate_sum_op{nullptr, numbers(v)});
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::check_adam("zero_one_adam", *this);
    expects(var_freeze_step >= 0, "zero_one_adam: var_freeze_step must be 0 or more");
    expects(var_update_scaler >= 1 && local_step_scaler >= 1 && local_step_clipper >= 1,
            "zero_one_adam: var_update_scaler, local_step_scaler and local_step_clipper must be at "
            "least 1");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("0/1 Adam, betas ", beta1, " and ", beta2, ", epsilon ", epsilon,
                  ", decoupled weight decay ", weight_decay,
                  detail::optim::describe_kinds("decays", decay_on),
                  "; second moment updated up to step ", var_freeze_step,
                  " in intervals that double after ", var_update_scaler,
                  " updates; then local steps, exchanged in intervals that double every ",
                  local_step_scaler, " steps up to ", local_step_clipper);
  }

 private:
  template <class Real, class D>
  void step(const optimizer_view<Real, D, slots>& v, const step_info& info,
            typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::zero_one_body<zero_one_adam, Real>{
            *this, detail::core::step_info_of(v, info), v.weights.data, v.slots[0].data,
            v.slots[1].data, v.grads.data, updates_variance(info) ? beta2 : 1});
  }
  static double* numbers(const auto& v) {
    return detail::optim::segment_numbers_in<zero_one_adam>(v, "zero_one_adam");
  }
};

}  // namespace cordee::inline CORDEE_ABI
