// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/testing/gradient.hpp>

using namespace cordee;

namespace {

/// f(x) = sum of sin(x_i) and its gradient.
struct sine_sum {
  std::vector<double> x = normal_numbers(20, 1);
  std::vector<double> gradient = x;

  sine_sum() {
    for (double& g : gradient) g = std::cos(g);
  }
  double operator()() const {
    double sum = 0;
    for (const double x_i : x) sum += std::sin(x_i);
    return sum;
  }
};

}  // namespace

TEST_CASE("check_gradient: a correct gradient has a small error, and x is restored") {
  sine_sum f;
  const auto before = f.x;
  CHECK(check_gradient(f.x, f.gradient, f).max_error < 1e-8);
  CHECK(check_direction(f.x, f.gradient, normal_numbers(20, 2), f).max_error < 1e-6);
  CHECK(f.x == before);
}

TEST_CASE("check_gradient: one wrong element is detected and named") {
  sine_sum f;
  f.gradient[13] += 0.01;
  const gradient_report report = check_gradient(f.x, f.gradient, f);
  CHECK(report.max_error > 1e-3);
  CHECK(report.index == 13);
  CHECK(report.compared == 20);
  CHECK(report.describe().find("element 13") == 0);
  CHECK(check_direction(f.x, f.gradient, normal_numbers(20, 2), f).max_error > 1e-6);
}

TEST_CASE("check_gradient: NaN has infinite error") {
  sine_sum f;
  f.gradient[3] = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isinf(check_gradient(f.x, f.gradient, f).max_error));
}
