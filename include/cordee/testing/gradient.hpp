// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Gradient check by central differences in double precision, for layers and losses of your own.
//
//   df/dx_i = (f(x + h e_i) - f(x - h e_i)) / 2h + O(h^2)
//
// The rounding error is about 1e-16 |f| / h, so at the default step a correct gradient agrees to
// about 1e-9. A kink of ReLU between x - h and x + h gives a false alarm.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI {

/// Largest error over the compared elements: |a - b| / max(scale, |a|, |b|).
struct gradient_report {
  /// Least denominator of an error: smaller derivatives are compared absolutely.
  static constexpr double scale = 1e-2;

  double max_error = 0;                 ///< Largest error so far; infinity if a derivative is NaN.
  std::size_t index = 0, compared = 0;  ///< Element of `max_error`, and elements compared.
  double analytic = 0, numeric = 0;     ///< Derivatives of element `index`.

  /// Compares the two derivatives of one element.
  void compare(std::size_t element, double analytic_value, double numeric_value) {
    ++compared;
    const double error = std::abs(analytic_value - numeric_value) /
                         std::max({scale, std::abs(analytic_value), std::abs(numeric_value)});
    if (error <= max_error) return;  // false for NaN, which counts as infinite
    max_error = std::isnan(error) ? HUGE_VAL : error;
    index = element;
    analytic = analytic_value;
    numeric = numeric_value;
  }
  /// "element 17: analytic 0.5, numeric 0.25, of 20 compared"
  [[nodiscard]] std::string describe() const {
    return concat("element ", index, ": analytic ", analytic, ", numeric ", numeric, ", of ",
                  compared, " compared");
  }
};

/// Compares every `stride`-th element of `gradient` with a difference quotient of f(), which reads
/// x. Restores x afterwards.
template <class F>
gradient_report check_gradient(std::span<double> x, std::span<const double> gradient, const F& f,
                               std::size_t stride = 1, double step = 1e-5) {
  gradient_report report;
  for (std::size_t i = 0; i < x.size(); i += stride) {
    const double value = x[i];
    x[i] = value + step;
    const double above = f();
    x[i] = value - step;
    const double below = f();
    x[i] = value;
    report.compare(i, gradient[i], (above - below) / (2 * step));
  }
  return report;
}

/// Compares only the derivative along `direction`, in two evaluations of f. Restores x afterwards.
template <class F>
gradient_report check_direction(std::span<double> x, std::span<const double> gradient,
                                std::span<const double> direction, const F& f, double step = 1e-6) {
  const std::vector<double> start(x.begin(), x.end());
  double slope = 0;
  for (std::size_t i = 0; i < x.size(); ++i) slope += gradient[i] * direction[i];
  const auto value_at = [&](double h) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = start[i] + h * direction[i];
    return f();
  };
  const double difference = (value_at(step) - value_at(-step)) / (2 * step);
  std::copy(start.begin(), start.end(), x.begin());
  gradient_report report;
  report.compare(0, slope, difference);
  return report;
}

/// Standard normal numbers for tests, from the seed.
template <class Real = double>
std::vector<Real> normal_numbers(std::size_t n, std::uint64_t seed) {
  random_sequence random(seed, purpose::test, 0, 0);
  std::vector<Real> numbers(n);
  for (Real& x : numbers) x = static_cast<Real>(random.normal());
  return numbers;
}

}  // namespace cordee::inline CORDEE_ABI
