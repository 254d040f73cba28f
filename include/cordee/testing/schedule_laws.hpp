// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of learning-rate schedules, for a schedule of your own:
//
//   TEST_CASE("my schedule obeys the laws") { CHECK(schedule_laws(my_schedule{}, 90) == ""); }
//
// Each law returns its first violation, or an empty string.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/testing/report.hpp>
#include <cordee/testing/same_bits.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::testing {
/// A fine grid over a run, whole epochs, and the numbers next to them on either side.
inline std::vector<double> sample_epochs(double epochs) {
  std::vector<double> samples;
  constexpr int grid = 1024;
  for (int i = 0; i <= grid; ++i) samples.push_back(epochs * i / grid);
  for (double whole = 0; whole <= epochs; whole += 1) {
    if (whole > 0) samples.push_back(std::nextafter(whole, 0.0));
    samples.push_back(whole);
    if (whole < epochs) samples.push_back(std::nextafter(whole, epochs));
  }
  return samples;
}
}  // namespace detail::testing

namespace laws {

/// Checks that the learning rate is finite and 0 or more throughout the run.
template <Schedule S>
std::string gives_finite_learning_rates(const S& schedule, double epochs) {
  for (const double e : detail::testing::sample_epochs(epochs)) {
    const double learning_rate = schedule(e);
    if (!(learning_rate >= 0 && std::isfinite(learning_rate)))
      return concat("at epoch ", e, " the learning rate is ", learning_rate);
  }
  return {};
}

/// Checks that an epoch's learning rate does not depend on the number or order of calls, or on the
/// copy called.
template <Schedule S>
std::string depends_on_epoch_alone(const S& schedule, double epochs) {
  const S copy = schedule;
  const std::vector<double> samples = detail::testing::sample_epochs(epochs);
  std::vector<double> learning_rates;
  for (const double e : samples) learning_rates.push_back(schedule(e));
  for (std::size_t i = samples.size(); i-- > 0;) {
    if (!same_bits(static_cast<double>(schedule(samples[i])), learning_rates[i]))
      return concat("a second call gives another learning rate at epoch ", samples[i]);
    if (!same_bits(static_cast<double>(copy(samples[i])), learning_rates[i]))
      return concat("a copy gives another learning rate at epoch ", samples[i]);
  }
  return {};
}

/// Checks that the learning rate is positive at some epoch.
template <Schedule S>
std::string is_positive_somewhere(const S& schedule, double epochs) {
  for (const double e : detail::testing::sample_epochs(epochs))
    if (schedule(e) > 0) return {};
  return "the learning rate is zero in the whole run";
}

/// Checks that an adaptive schedule gives valid learning rates after any finite losses, and equal
/// ones on all ranks, which observe equal losses.
template <Schedule S>
std::string observes_deterministically(S schedule, double epochs) {
  if constexpr (detail::schedule::AdaptiveSchedule<S>) {
    S other = schedule;
    for (int k = 0; k < 400; ++k) {
      const double e = epochs * k / 400;
      const double loss = k % 50 == 49 ? 1e30 : 2 + std::sin(0.1 * k) / (1 + 0.01 * k);
      observation seen{e, loss};
      if (k % 20 == 19) seen.epoch_loss = seen.validation_loss = loss;
      detail::schedule::observe(schedule, seen);
      detail::schedule::observe(other, seen);
      const double learning_rate = schedule(e);
      if (!(learning_rate >= 0 && std::isfinite(learning_rate)))
        return concat("after a loss of ", loss, " the learning rate at epoch ", e, " is ",
                      learning_rate);
      if (!same_bits(learning_rate, static_cast<double>(other(e))))
        return concat("two copies that observed the same losses differ at epoch ", e);
    }
    return depends_on_epoch_alone(schedule, epochs);
  }
  return {};
}

}  // namespace laws

/// All laws of schedules over a run of so many epochs. Returns the violations, one per line; empty
/// if every law holds.
template <Schedule S>
std::string schedule_laws(const S& schedule, double epochs) {
  static_assert(detail::schedule::has_schedule_members<S>());
  detail::testing::report r;
  r.append(laws::gives_finite_learning_rates(schedule, epochs));
  r.append(laws::depends_on_epoch_alone(schedule, epochs));
  r.append(laws::is_positive_somewhere(schedule, epochs));
  r.append(laws::observes_deterministically(schedule, epochs));
  r.expect(!describe(schedule).empty(), "the description is empty");
  return r.violations();
}

}  // namespace cordee::inline CORDEE_ABI
