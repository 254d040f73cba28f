// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Schedule-free SGD and AdamW (Defazio et al. 2024): an average of the weights instead of
// learning-rate decay, so the length of the run need not be known. Use constant{lr}.
//
//   d = g(y)                      schedule_free_adamw: g / (sqrt(v^) + epsilon), v^ as in adamw.hpp
//   z <- z - lr_t (d + weight_decay y)        lr_t = lr min(t / warmup_steps, 1)
//   x <- (1 - c) x + c z                      c = lr_t^2 / (lr_1^2 + ... + lr_t^2)
//   y <- (1 - beta) z + beta x                beta: momentum, beta1
//
// t: applied steps, this included. Training is at y, the run's weights; evaluate, save and predict
// use the average x. Batch norm's statistics are those at y; the callback `recalibration` replaces
// them by those at x. c assumes a constant lr: a schedule that changes it changes only lr_t, but a
// step at lr = 0 changes nothing. The authors' package computes x from y and z; here x is a plane.
#pragma once

#include <cstdint>
#include <string>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// min(t / warmup, 1), the share of the learning rate in step t = 1, 2, ...
CORDEE_HOST_DEVICE inline double warmup_share(double t, double warmup) {
  return t < warmup ? t / warmup : 1;
}
/// c: the square of this step's share, divided by the sum of squares up to it.
CORDEE_HOST_DEVICE inline double average_share(double t, double warmup) {
  const double n = t < warmup ? t : warmup, share = warmup_share(t, warmup);
  const double rising = warmup > 0 ? n * (n + 1) * (2 * n + 1) / (6 * warmup * warmup) : 0;
  return share * share / (rising + (t - n));
}

/// The three points of a number.
template <class Real>
struct schedule_free_points {
  Real *y, *z, *x;
  Real decay = 0, learning_rate = 0, beta = 0, c = 0;

  CORDEE_HOST_DEVICE void set(double interpolation, double warmup, double weight_decay,
                              const step_info& info) {
    const double t = static_cast<double>(info.applied + 1);
    decay = factor<Real>(weight_decay);
    learning_rate = factor<Real>(info.learning_rate * warmup_share(t, warmup));
    beta = static_cast<Real>(interpolation);
    c = info.learning_rate == 0 ? 0 : static_cast<Real>(average_share(t, warmup));
  }
  template <class At>
  [[gnu::always_inline]] constexpr void move(At at, typename At::number direction) const {
    const typename At::number d = at.clamped(at.clamped(direction) + at.clamped(decay * at(y))),
                              point = at.clamped(at(z) - at.clamped(learning_rate * d)),
                              before = at(x), average = before + c * (point - before);
    at.put(z, point);
    at.put(x, average);
    at.put(y, point + beta * (average - point));
  }
};

template <class Real>
struct schedule_free_sgd_update {
  schedule_free_points<Real> points;
  const Real* g;

  template <class At>
  constexpr void operator()(At at) const {
    points.move(at, at(g));
  }
};
template <class Real>
struct schedule_free_adamw_update {
  schedule_free_points<Real> points;
  adam_moments<Real> moments;
  Real* v;
  const Real* g;

  template <class At>
  constexpr void operator()(At at) const {
    points.move(at, moments.normalized(at, v, at(g)));
  }
};

template <class Optimizer, class Real>
struct schedule_free_sgd_body {
  Optimizer optimizer;
  const step_info* info;
  schedule_free_sgd_update<Real> update;

  CORDEE_HOST_DEVICE schedule_free_sgd_update<Real> for_segment(kind what, std::size_t) const {
    schedule_free_sgd_update<Real> of = update;
    of.points.set(optimizer.momentum, static_cast<double>(optimizer.warmup_steps),
                  optimizer.decay_on(what) ? optimizer.weight_decay : 0, *info);
    return of;
  }
};
template <class Optimizer, class Real>
struct schedule_free_adamw_body {
  Optimizer optimizer;
  const step_info* info;
  const adam_moments<Real>* moments;
  schedule_free_points<Real> points;
  Real* v;
  const Real* g;

  CORDEE_HOST_DEVICE schedule_free_adamw_update<Real> for_segment(kind what, std::size_t) const {
    schedule_free_adamw_update<Real> of{points, *moments, v, g};
    of.points.set(optimizer.beta1, static_cast<double>(optimizer.warmup_steps),
                  optimizer.decay_on(what) ? optimizer.weight_decay : 0, *info);
    return of;
  }
};

/// z, x <- w
template <class Real>
struct start_points {
  const Real* w;
  Real *z, *x;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(z, at(w));
    at.put(x, at(w));
  }
};

inline std::string describe_warmup(std::int64_t steps) {
  return steps == 0 ? std::string() : concat(", warm-up of ", steps, " steps");
}

}  // namespace detail::optim

/// Schedule-free SGD, evaluated with the average of its steps; see the header's top.
struct schedule_free_sgd {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 2;                       ///< The points z and x.
  static constexpr int average_slot = 1;                ///< x.
  static constexpr bool capturable = true;              ///< See OptimizerOn.

  /// Interpolation factor: the weight of the average x in y, where gradients are taken. Range: 0 <=
  /// momentum < 1, else usage_error. Default: as the authors' package.
  double momentum = 0.9;
  /// L2 penalty: this times y is added to the gradient. Range: finite, 0 or more, else usage_error.
  double weight_decay = 0;
  /// Steps of linear learning-rate warm-up. Unit: applied steps. Range: 0 or more, else
  /// usage_error.
  std::int64_t warmup_steps = 0;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Updates z, x and the weights y.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(s, v.segments,
                        detail::optim::schedule_free_sgd_body<schedule_free_sgd, Real>{
                            *this,
                            detail::core::step_info_of(v, info),
                            {{v.weights.data, v.slots[0].data, v.slots[1].data}, v.grads.data}});
  }
  /// z, x <- the weights
  template <class Real, class D>
  void initialize(const optimizer_view<Real, D, slots>& v, typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::start_points<Real>{v.weights.data, v.slots[0].data, v.slots[1].data});
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::expects_decay_rate("schedule_free_sgd", "momentum", momentum);
    detail::optim::expects_not_negative("schedule_free_sgd", "weight_decay", weight_decay);
    expects(warmup_steps >= 0, "schedule_free_sgd: warmup_steps is negative");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("schedule_free_sgd, momentum ", momentum, ", weight decay ", weight_decay,
                  detail::optim::describe_warmup(warmup_steps),
                  detail::optim::describe_kinds("decays", decay_on),
                  "; evaluated by the average of its steps");
  }
};

/// Schedule-free AdamW, evaluated with the average of its steps; see the header's top.
struct schedule_free_adamw {
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 3;           ///< The second moment v, and the points z and x.
  static constexpr int average_slot = 2;    ///< x.
  static constexpr bool capturable = true;  ///< See OptimizerOn.

  /// Interpolation factor: the weight of the average x in y, where gradients are taken. Range: 0 <=
  /// beta1 < 1, else usage_error. Default: as the authors' package.
  double beta1 = 0.9;
  /// Decay rate of the second moment v. Range: 0 <= beta2 < 1, else usage_error. Default: as the
  /// authors' package.
  double beta2 = 0.999;
  /// Added to the root of v^. Range: finite, above 0, else usage_error. Default: as the authors'
  /// package.
  double epsilon = 1e-8;
  /// Weight decay: the factor of y in the normalized gradient. Range: finite, 0 or more, else
  /// usage_error. Default: as the authors' package.
  double weight_decay = 0;
  /// Steps of linear learning-rate warm-up. Unit: applied steps. Range: 0 or more, else
  /// usage_error.
  std::int64_t warmup_steps = 0;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.

  /// Updates v, z, x and the weights y.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    detail::optim::with_moments(*this, v, info, s, [&](const auto* moments) {
      // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
      segmented_for<Real>(s, v.segments,
                          detail::optim::schedule_free_adamw_body<schedule_free_adamw, Real>{
                              *this,
                              detail::core::step_info_of(v, info),
                              moments,
                              {v.weights.data, v.slots[1].data, v.slots[2].data},
                              v.slots[0].data,
                              v.grads.data});
    });
  }
  /// z, x <- the weights
  template <class Real, class D>
  void initialize(const optimizer_view<Real, D, slots>& v, typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_for<Real>(
        s, v.segments,
        detail::optim::start_points<Real>{v.weights.data, v.slots[1].data, v.slots[2].data});
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::check_adam("schedule_free_adamw", *this);
    expects(warmup_steps >= 0, "schedule_free_adamw: warmup_steps is negative");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("schedule_free_adamw, betas ", beta1, " and ", beta2, ", epsilon ", epsilon,
                  ", weight decay ", weight_decay, detail::optim::describe_warmup(warmup_steps),
                  detail::optim::describe_kinds("decays", decay_on),
                  "; evaluated by the average of its steps");
  }
};

}  // namespace cordee::inline CORDEE_ABI
