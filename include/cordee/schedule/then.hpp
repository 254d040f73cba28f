// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One schedule after another, in the order in which they apply.
//
//   then{a, W, b}     lr(e) = a(e)   for e < W,   then b(e - W)
//
// The second schedule's epochs count from where it begins, as with `warmup_then`. Longer sequences
// nest to the right: then{a, 10, then{b, 20, c}}.
#pragma once

#include <cordee/core/error.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// One schedule, then another that starts at its own epoch 0.
template <Schedule A, Schedule B>
struct then {
  static_assert(!detail::schedule::AdaptiveSchedule<A> || !detail::schedule::AdaptiveSchedule<B>,
                "then: at most one of the two schedules may be adaptive");

  A first{};  ///< The schedule before `epochs`.
  /// Length of the first schedule. Unit: epochs. Range: finite, above 0, else usage_error.
  double epochs = 0;
  /// The schedule from `epochs` on, starting at its epoch 0. At most one of the two may be
  /// adaptive, else a compile error.
  B second{};

  /// The first schedule before `epochs`, then the second from its epoch 0. The second checks its
  /// options from the beginning, too.
  double operator()(double epoch) const {
    detail::schedule::expect_finite("then", {{".epochs", epochs}});
    expects(epochs > 0, "then: the first schedule must last longer than 0 epochs");
    const double after = second(epoch < epochs ? 0.0 : epoch - epochs);  // throws before its epoch
    return epoch < epochs ? first(epoch) : after;
  }
  /// End of the second schedule, after the first.
  [[nodiscard]] double end_epoch() const { return epochs + detail::schedule::end_epoch_of(second); }
  /// Passes observations to the adaptive schedule, during its part of the run and at its own
  /// epochs.
  void observe(observation seen)
    requires(detail::schedule::AdaptiveSchedule<A> || detail::schedule::AdaptiveSchedule<B>)
  {
    if constexpr (detail::schedule::AdaptiveSchedule<A>) {
      if (seen.epoch < epochs) detail::schedule::observe(first, seen);
    } else if (seen.epoch >= epochs) {
      seen.epoch -= epochs;
      detail::schedule::observe(second, seen);
    }
  }
  /// State of the schedule that has one; of the first if both do.
  [[nodiscard]] decltype(auto) state()
    requires(detail::schedule::HasScheduleState<A> || detail::schedule::HasScheduleState<B>)
  {
    if constexpr (detail::schedule::HasScheduleState<A>)
      return detail::schedule::state_of(first);
    else
      return detail::schedule::state_of(second);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(cordee::describe(first), "; from epoch ", epochs,
                  " on, counted from there: ", cordee::describe(second));
  }
};
template <class A, class B>
then(A, double, B) -> then<A, B>;

}  // namespace cordee::inline CORDEE_ABI
