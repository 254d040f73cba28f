// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A learning-rate schedule is a function of the epochs of data seen. To write one (example:
// examples/own_schedule.cpp):
//
//   struct my_schedule {                         // any copyable callable, also a lambda
//     member                      type           meaning
//     operator()(epoch) const     -> double      learning rate of the update that begins at `epoch`
//
//     optional member              default         meaning
//     describe() const             a neutral text  one line for the run's description
//     end_epoch() const            infinite        from where the learning rate is constant
//     observe(observation)         not adaptive    by `fit`, after each update, on all ranks
//     state()                      none            std::span<double>: what observe changes, which a
//                                                  checkpoint saves and restores; or a
//                                                  std::vector<double>&, whose length may change
//     needs_validation             false           static constexpr bool: fit must validate
//     needs_gradient_noise         false           likewise: the trainer must measure it
//     batch_decided() const        the loader's    batch_schedule: the global batches so far, which
//                                                  fit gives to the loader after each epoch
//   };
//
// Pass it to the trainer unchanged, or wrapped: warmup{5, my_schedule{}}. A wrapper of your own
// names the schedule inside `inner` and inherits its optional members unless it declares them,
// except describe() and batch_decided(). A misspelled or mistyped member is a compile error that
// states the right one. The defaults are in `describe`, `end_epoch_of` and `AdaptiveSchedule`
// below, not in a base: a lambda has none, and for designated initializers of an aggregate with a
// base GCC warns (-Wmissing-field-initializers, of -Wextra). One line tests a schedule:
// CHECK(schedule_laws(my_schedule{}, 90) == "").
//
// The argument counts data and not steps, so changing the batch changes no schedule. The first
// update of a run has the learning rate of epoch 0.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cordee/core/batch_schedule.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/member_check.hpp>

namespace cordee::inline CORDEE_ABI {

/// A map from epochs of data seen, whole or fractional, to the learning rate of the next update.
/// The same epoch always gives the same learning rate. The library's schedules check their options
/// at each call and throw usage_error.
template <class S>
concept Schedule = std::regular_invocable<const S&, double> &&
                   std::convertible_to<std::invoke_result_t<const S&, double>, double>;

/// What an adaptive schedule observes after an update; equal on all ranks.
struct observation {
  double epoch = 0;  ///< The epoch at which the update began.
  double loss = 0;   ///< Mean over the update's samples on all ranks.
  /// Mean loss over the samples of the epoch that ended with the update, if one did.
  std::optional<double> epoch_loss{};
  /// Mean loss of fit's validation after that epoch, if there is one.
  std::optional<double> validation_loss{};
  /// The gradient noise scale minus its standard error, at the end of an epoch. Unit: first global
  /// batches. NaN if it is not measured, or not known yet.
  double noise_batches = detail::core::limits<double>::quiet_NaN();
  /// Estimates from this update's gradient: the squared norm of its expectation, and its variance.
  /// Either may be negative. NaN if they are not measured, or the update was not applied.
  double squared_gradient = detail::core::limits<double>::quiet_NaN();
  double gradient_variance = detail::core::limits<double>::quiet_NaN();  ///< See above.
};

namespace detail::schedule {

/// A schedule that wraps another one, its member `inner`, and has the optional members of `inner`
/// where it declares none itself.
template <class S>
concept WrapsSchedule =
    requires { &S::inner; } && Schedule<std::remove_cvref_t<decltype(S::inner)>>;
template <WrapsSchedule S>
using inner_of = std::remove_cvref_t<decltype(S::inner)>;

template <class S>
concept DeclaresObserve = requires(S s, const observation& seen) {
  { s.observe(seen) };
};
template <class S>
concept DeclaresState = requires(S s) {
  { s.state() } -> std::same_as<std::span<double>>;
} || requires(S s) {
  { s.state() } -> std::same_as<std::vector<double>&>;
};
template <class S>
consteval bool observes() {
  if constexpr (DeclaresObserve<S>)
    return true;
  else if constexpr (WrapsSchedule<S>)
    return observes<inner_of<S>>();
  else
    return false;
}
template <class S>
consteval bool shows_state() {
  if constexpr (DeclaresState<S>)
    return true;
  else if constexpr (WrapsSchedule<S>)
    return shows_state<inner_of<S>>();
  else
    return false;
}

/// A schedule with state, which observes what all ranks have observed, so that the learning rate
/// stays equal on all ranks.
template <class S>
concept AdaptiveSchedule = Schedule<S> && observes<S>();

/// A schedule that shows the numbers which observe() changes, in its own memory.
template <class S>
concept HasScheduleState = Schedule<S> && shows_state<S>();

template <AdaptiveSchedule S>
void observe(S& schedule, const observation& seen) {
  if constexpr (DeclaresObserve<S>)
    schedule.observe(seen);
  else
    observe(schedule.inner, seen);
}
/// A span or a vector, which may be replaced.
template <HasScheduleState S>
decltype(auto) state_of(S& schedule) {
  if constexpr (DeclaresState<S>)
    return schedule.state();
  else
    return state_of(schedule.inner);
}

/// A schedule that decides the global batch as well.
template <class S>
concept DecidesBatch = DeclaresObserve<S> && requires(const S s) {
  { s.batch_decided() } -> std::convertible_to<batch_schedule>;
};
/// A schedule inside `S` does, which fit does not look for there.
template <class S>
concept HidesBatch = requires { requires DecidesBatch<decltype(S::inner)>; } || requires {
  requires DecidesBatch<decltype(S::first)>;
} || requires { requires DecidesBatch<decltype(S::second)>; };

/// Whether a schedule, or one inside it, observes the loss of a validation.
template <class S>
consteval bool needs_validation() {
  if constexpr (requires { S::needs_validation; })
    return S::needs_validation;
  else if constexpr (requires { &S::inner; })
    return needs_validation<decltype(S::inner)>();
  else if constexpr (requires {
                       &S::first;
                       &S::second;
                     })
    return needs_validation<decltype(S::first)>() || needs_validation<decltype(S::second)>();
  else
    return false;
}

/// Whether a schedule, or one inside it, decides by the gradient's noise.
template <class S>
consteval bool needs_gradient_noise() {
  if constexpr (DecidesBatch<S> || requires { requires S::needs_gradient_noise; })
    return true;
  else if constexpr (WrapsSchedule<S>)
    return needs_gradient_noise<inner_of<S>>();
  else
    return false;
}

template <class S>
constexpr bool has_end_epoch = requires(const S s) {
  { s.end_epoch() } -> std::convertible_to<double>;
};
template <class S>
constexpr bool has_description = requires(const S s) {
  { s.describe() } -> std::convertible_to<std::string>;
};

template <class S>
auto check_observe(S& object, const observation& seen) {
  CORDEE_MEMBER(optional, "schedule", S, void, observe, (const observation&), (seen), observes,
                observed, on_loss, update);
  constexpr bool state_absent = !requires { &S::state; };
  static_assert(
      DeclaresState<S> || state_absent,
      "schedule: `state` must be: std::span<double> state(), or std::vector<double>& state()");
  CORDEE_LIKELY_1(CORDEE_LIKE_FUNCTION, "schedule", S, state, (), states);
}
template <class S>
auto check_members(const S& object) {
  static_assert(Schedule<S>,
                "a schedule is what returns the learning rate of an epoch: constant{0.1}, or any "
                "callable 'double(double)'");
  CORDEE_MEMBER(optional, "schedule", S, double, end_epoch, () const, (), ends, end, last_epoch);
  CORDEE_MEMBER(optional, "schedule", S, std::string, describe, () const, (), description,
                describes, to_string);
  CORDEE_MEMBER(optional, "schedule", S, batch_schedule, batch_decided, () const, (),
                batches_decided, decided_batch);
  CORDEE_CONSTANT(optional, "schedule", S, bool, needs_validation, need_validation,
                  requires_validation);
  CORDEE_CONSTANT(optional, "schedule", S, bool, needs_gradient_noise, need_gradient_noise,
                  requires_gradient_noise);
  static_assert(DecidesBatch<S> || batch_decided_absent,
                "schedule: beside `batch_decided` there must be: void observe(const observation&)");
  static_assert(!HidesBatch<S>,
                "a schedule that decides the batch is the outermost one: "
                "adaptive_batch{warmup{5, cosine{}}}");
}
/// True, or a compile error that states the member to correct. A name that is present with another
/// type would otherwise count as absent.
template <class S>
consteval bool has_schedule_members() {
  return core::compiles<decltype(&check_members<S>), decltype(&check_observe<S>)>;
}

struct named_option {
  const char* name;
  double value;
};
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(const char* schedule, named_option o) {
  throw usage_error(
      concat(schedule, ": ", o.name, " is ", o.value,
             core::isfinite(o.value) ? ": it must be 0 or more" : ": give a finite number"));
}
/// Throws usage_error with the first option that is NaN or infinite.
constexpr void expect_finite(const char* schedule, std::initializer_list<named_option> options) {
  for (const named_option& o : options)
    if (!core::isfinite(o.value)) refuse(schedule, o);
}
/// Throws usage_error for an option that is NaN, infinite or negative.
constexpr void expect_not_negative(const char* schedule, named_option o) {
  if (!(o.value >= 0 && core::isfinite(o.value))) refuse(schedule, o);
}

/// The learning rate of the update at `epoch`. Throws `error` unless it is finite and 0 or more.
template <Schedule S>
double learning_rate_of(const S& schedule, double epoch) {
  static_assert(has_schedule_members<S>());
  const double learning_rate = schedule(epoch);
  if (!(learning_rate >= 0 && core::isfinite(learning_rate)))
    throw error(concat("the schedule gives the learning rate ", learning_rate, " at epoch ", epoch,
                       ": it must be finite, 0 or more"));
  return learning_rate;
}

/// The epoch from which the learning rate is constant (often zero): that of `end_epoch()`, else
/// that of the schedule that it wraps, else infinity.
template <Schedule S>
double end_epoch_of(const S& schedule) {
  if constexpr (has_end_epoch<S>)
    return schedule.end_epoch();
  else if constexpr (WrapsSchedule<S>)
    return end_epoch_of(schedule.inner);
  else
    return core::limits<double>::infinity();
}

}  // namespace detail::schedule

/// Returns one line for logs: the schedule's own, or its learning rate at epoch 0.
template <Schedule S>
std::string describe(const S& schedule) {
  if constexpr (detail::schedule::has_description<S>)
    return schedule.describe();
  else
    return concat("a schedule of your own, ", static_cast<double>(schedule(0.0)), " at epoch 0");
}

}  // namespace cordee::inline CORDEE_ABI
