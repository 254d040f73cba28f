// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How far to step, and when: a schedule maps fractional epochs to a rate.
//
// Keyed on data seen, never on steps, so that changing the batch changes no schedule. The rate at
// epoch e is the one of the update that begins there: the first update of a run uses rate(0).
#pragma once

#include <cmath>
#include <concepts>
#include <string>
#include <type_traits>

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

/// Called with the epochs of data seen, whole and fractional, gives the rate of the next update.
/// The same epoch always gives the same rate.
template <class S>
concept Schedule = std::regular_invocable<const S&, double> &&
                   std::convertible_to<std::invoke_result_t<const S&, double>, double>;

/// A schedule with a memory: told the mean loss over all ranks after each update, so that every
/// rank decides alike.
template <class S>
concept AdaptiveSchedule = Schedule<S> && requires(S s, double epoch, double mean_loss) {
  { s.observe(epoch, mean_loss) };
};

/// The rate of the update at `epoch`; one that no step can be taken with is an error.
template <Schedule S>
double rate_of(const S& schedule, double epoch) {
  const double rate = schedule(epoch);
  if (!(rate >= 0 && std::isfinite(rate)))
    throw error(text("the schedule gives the rate ", rate, " at epoch ", epoch,
                     ": a rate must be a finite number, 0 or more"));
  return rate;
}

/// The epoch at which a schedule has come to its last rate, often zero: what it says itself, by
/// `ends()`, or never. One that is wrapped asks what it wraps.
template <Schedule S>
double end_of(const S& schedule) {
  if constexpr (requires {
                  { schedule.ends() } -> std::convertible_to<double>;
                })
    return schedule.ends();
  else
    return HUGE_VAL;
}

/// A schedule in words, for people: what it says of itself.
template <Schedule S>
std::string in_words(const S& schedule) {
  if constexpr (requires {
                  { schedule.describe() } -> std::convertible_to<std::string>;
                })
    return schedule.describe();
  else
    return text("a schedule of your own, ", static_cast<double>(schedule(0.0)), " at epoch 0");
}

}  // namespace cordee::inline CORDEE_ABI
