// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Is this the gradient? Central differences, (f(x + h e) - f(x - h e)) / 2h, in double precision.
//
// For your own layers and losses; needs no test framework. The error of a central difference is
// about h^2 + 1e-16 |f| / h, so at the default step a right gradient agrees to some 1e-9, and a
// wrong one to nothing; a ReLU's kink between x - h and x + h is the one false alarm.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/random.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

/// The largest disagreement that was found, relative where numbers are larger than `scale`.
struct gradient_report {
  static constexpr double scale = 1e-2;

  double worst = 0;
  std::size_t at = 0, compared = 0;
  double claimed = 0, measured = 0;

  void compare(std::size_t index, double claim, double measurement) {
    ++compared;
    const double error =
        std::abs(claim - measurement) / std::max({scale, std::abs(claim), std::abs(measurement)});
    if (error <= worst) return;  // written so that not a number is the worst of all
    worst = std::isnan(error) ? HUGE_VAL : error;
    at = index;
    claimed = claim;
    measured = measurement;
  }
  /// "element 17: claimed 0.5, measured 0.25"
  [[nodiscard]] std::string sentence() const {
    return text("element ", at, ": claimed ", claimed, ", measured ", measured, ", of ", compared,
                " compared");
  }
};

/// Compares `gradient` with differences of f, element by element, every `stride`-th of them. f
/// reads x; x is as before afterwards.
template <class F>
gradient_report check_gradient(std::span<double> x, std::span<const double> gradient, const F& f,
                               std::size_t stride = 1, double step = 1e-5) {
  gradient_report report;
  for (std::size_t i = 0; i < x.size(); i += stride) {
    const double here = x[i];
    x[i] = here + step;
    const double above = f();
    x[i] = here - step;
    const double below = f();
    x[i] = here;
    report.compare(i, gradient[i], (above - below) / (2 * step));
  }
  return report;
}

/// Compares the gradient's projection on one direction: all elements at the price of one.
template <class F>
gradient_report check_direction(std::span<double> x, std::span<const double> gradient,
                                std::span<const double> direction, const F& f, double step = 1e-6) {
  const std::vector<double> here(x.begin(), x.end());
  double slope = 0;
  for (std::size_t i = 0; i < x.size(); ++i) slope += gradient[i] * direction[i];
  const auto at = [&](double h) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = here[i] + h * direction[i];
    return f();
  };
  const double difference = (at(step) - at(-step)) / (2 * step);
  std::copy(here.begin(), here.end(), x.begin());
  gradient_report report;
  report.compare(0, slope, difference);
  return report;
}

/// Standard normal numbers for tests: a function of seed and position.
template <class Real = double>
std::vector<Real> normal_numbers(std::size_t n, std::uint64_t seed) {
  random_sequence random(seed, purpose::test, 0, 0);
  std::vector<Real> numbers(n);
  for (Real& x : numbers) x = static_cast<Real>(random.normal());
  return numbers;
}

}  // namespace cordee::inline CORDEE_ABI
