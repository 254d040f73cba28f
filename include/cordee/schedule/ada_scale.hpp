// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// AdaScale (Johnson et al. 2020): the schedule of a small batch, applied to one that is `scale`
// times as large. The gain r is the number of small-batch steps that one large step is worth.
//
//   v, m   variance and squared mean of an update's gradient (train/step/gradient_noise.hpp)
//   V, M   averages of v and m, each at least 0: a <- smoothing a + (1 - smoothing) x, over weights
//   r      (scale V + M) / (V + M), within 1 .. scale; 1 at first
//   lr     r s(p)       p: scale-invariant epochs, r / scale of an epoch in each epoch of data
//
// r is `scale` if noise dominates and 1 if it is negligible, so no warm-up needs tuning. The
// schedule s ends when p reaches its last epoch: after the epochs of the small batch (if r = scale
// throughout) to `scale` times as many.
//
// The paper measures r on the gradient that it scales; here r comes from the previous updates, so
// all ranks know it when the update begins. fairscale gives v a floor of 1e-6.
//
// Pass it to the trainer, not inside another schedule, with measure_gradient_noise, and train by
// `fit`.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <string>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/option_range.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// AdaScale: stretches a small-batch schedule for a large batch; see the header's top.
template <Schedule S>
struct ada_scale {
  static_assert(!detail::schedule::AdaptiveSchedule<S>,
                "ada_scale: the schedule inside observes nothing; plateau and auto_wu are used "
                "without it");
  /// `fit` rejects a run that does not measure gradient noise.
  static constexpr bool needs_gradient_noise = true;

  /// The small-batch schedule. Range: not an adaptive one, else a compile error.
  S inner{};
  /// The global batch divided by the small batch. Range: finite, 1 or more, else usage_error.
  double scale = 1;
  /// Decay rate of the averages; NaN: max(1 - scale / 1000, 0). Range: 0 <= smoothing < 1 or NaN,
  /// else usage_error. Default: as Johnson et al. 2020.
  double smoothing = std::numeric_limits<double>::quiet_NaN();

  /// State: the epoch of the last update, p there, the gain it had and the gain since, and the sums
  /// of weights, v and m.
  std::array<double, 7> seen{0, 0, 1, 1, 0, 0, 0};

  /// The gain times the inner learning rate at the scale-invariant epoch.
  double operator()(double epoch) const {
    expects(scale >= 1 && detail::core::isfinite(scale), "ada_scale: .scale must be 1 or more");
    expects(detail::core::isnan(smoothing) || (smoothing >= 0 && smoothing < 1),
            "ada_scale: .smoothing must be in [0, 1)");
    return gain() * inner(progress(epoch));
  }
  /// Small-batch steps that the next update counts for, from 1 to `scale`.
  [[nodiscard]] double gain() const { return seen[3]; }
  /// Scale-invariant epochs before an update that begins at `epoch`, given the gains known so far.
  [[nodiscard]] double progress(double epoch) const {
    return seen[1] + seen[2] / scale * std::max(epoch - seen[0], 0.0);
  }
  /// Advances to the update, and includes its gradient in the next gain.
  void observe(const observation& update) {
    seen[1] = progress(update.epoch);
    seen[0] = update.epoch;
    seen[2] = gain();
    if (!detail::core::isfinite(update.gradient_variance) ||
        !detail::core::isfinite(update.squared_gradient))
      return;
    const double keep =
        detail::core::isnan(smoothing) ? std::max(1 - scale / 1000, 0.0) : smoothing;
    const auto add = [&](double& sum, double x) { sum = keep * sum + (1 - keep) * x; };
    add(seen[4], 1);
    add(seen[5], std::max(update.gradient_variance, 0.0));
    add(seen[6], std::max(update.squared_gradient, 0.0));
    const double whole = seen[5] + seen[6];
    seen[3] = whole > 0 ? (scale * seen[5] + seen[6]) / whole : 1;
  }
  /// `seen`.
  [[nodiscard]] std::span<double> state() { return seen; }
  /// Infinity: gains are not known in advance.
  [[nodiscard]] double end_epoch() const { return std::numeric_limits<double>::infinity(); }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("times AdaScale's gain at ", scale,
                  " times the batch of: ", cordee::describe(inner),
                  detail::core::isnan(smoothing) ? "" : concat("; smoothed by ", smoothing));
  }
};
template <class S>
ada_scale(S, double) -> ada_scale<S>;
template <class S>
ada_scale(S, double, double) -> ada_scale<S>;

}  // namespace cordee::inline CORDEE_ABI
