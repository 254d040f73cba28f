// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What every schedule must obey, for a schedule of your own too:
//
//   TEST_CASE("my schedule obeys the laws of schedules") { schedule_laws(my_schedule{}, 90); }
//
// Each law is a function that returns what is wrong, or nothing; only `schedule_laws` needs
// doctest.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/text.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

namespace laws {

/// Places in a run: a fine grid, whole epochs, and their neighbours on either side.
inline std::vector<double> places(double epochs) {
  std::vector<double> all;
  constexpr int grid = 1024;
  for (int i = 0; i <= grid; ++i) all.push_back(epochs * i / grid);
  for (double whole = 0; whole <= epochs; whole += 1) {
    if (whole > 0) all.push_back(std::nextafter(whole, 0.0));
    all.push_back(whole);
    if (whole < epochs) all.push_back(std::nextafter(whole, epochs));
  }
  return all;
}

inline bool same_rate(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// A rate is a finite number, 0 or more, everywhere from the first epoch to the last.
template <Schedule S>
std::string gives_rates(const S& schedule, double epochs) {
  for (const double e : places(epochs)) {
    const double rate = schedule(e);
    if (!(rate >= 0 && std::isfinite(rate))) return text("at epoch ", e, " the rate is ", rate);
  }
  return {};
}

/// The same epoch has the same rate however often, in which order, and through which copy it is
/// asked for.
template <Schedule S>
std::string depends_on_the_epoch_alone(const S& schedule, double epochs) {
  const S copy = schedule;
  const std::vector<double> there = places(epochs);
  std::vector<double> rates;
  for (const double e : there) rates.push_back(schedule(e));
  for (std::size_t i = there.size(); i-- > 0;) {
    if (!same_rate(schedule(there[i]), rates[i]))
      return text("asked again, the rate at epoch ", there[i], " was another");
    if (!same_rate(copy(there[i]), rates[i]))
      return text("a copy has another rate at epoch ", there[i]);
  }
  return {};
}

/// Some rate is more than zero, or nothing would be learned.
template <Schedule S>
std::string moves_somewhere(const S& schedule, double epochs) {
  for (const double e : places(epochs))
    if (schedule(e) > 0) return {};
  return "the rate is zero throughout";
}

/// One that observes stays a schedule whatever it is told that is finite, and two that are told the
/// same agree: every rank decides alike.
template <Schedule S>
std::string observes_alike(S schedule, double epochs) {
  if constexpr (AdaptiveSchedule<S>) {
    S other = schedule;
    for (int k = 0; k < 400; ++k) {
      const double e = epochs * k / 400;
      const double loss = k % 50 == 49 ? 1e30 : 2 + std::sin(0.1 * k) / (1 + 0.01 * k);
      schedule.observe(e, loss);
      other.observe(e, loss);
      const double rate = schedule(e);
      if (!(rate >= 0 && std::isfinite(rate)))
        return text("after a loss of ", loss, " the rate at epoch ", e, " is ", rate);
      if (!same_rate(rate, other(e))) return text("told the same, two disagree at epoch ", e);
    }
    return depends_on_the_epoch_alone(schedule, epochs);
  }
  return {};
}

}  // namespace laws

/// All laws of schedules, over a run of so many epochs. One line inside a TEST_CASE.
template <Schedule S>
void schedule_laws(const S& schedule, double epochs) {
  CHECK(laws::gives_rates(schedule, epochs) == "");
  CHECK(laws::depends_on_the_epoch_alone(schedule, epochs) == "");
  CHECK(laws::moves_somewhere(schedule, epochs) == "");
  CHECK(laws::observes_alike(schedule, epochs) == "");
  CHECK(in_words(schedule) != "");
}

}  // namespace cordee::inline CORDEE_ABI
