// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/testing/gradient.hpp>

using namespace cordee;

namespace {

/// f(x) = sum of sin(x_i), its gradient, and how often it was asked.
struct waves {
  std::vector<double> x = normal_numbers(20, 1);
  std::vector<double> gradient = x;

  waves() {
    for (double& g : gradient) g = std::cos(g);
  }
  double operator()() const {
    double sum = 0;
    for (const double at : x) sum += std::sin(at);
    return sum;
  }
};

}  // namespace

TEST_CASE("check_gradient: a right gradient passes and x is as before") {
  waves f;
  const auto before = f.x;
  CHECK(check_gradient(f.x, f.gradient, f).worst < 1e-8);
  CHECK(check_direction(f.x, f.gradient, normal_numbers(20, 2), f).worst < 1e-6);
  CHECK(f.x == before);
}

TEST_CASE("check_gradient: one wrong element is found and named") {
  waves f;
  f.gradient[13] += 0.01;
  const gradient_report report = check_gradient(f.x, f.gradient, f);
  CHECK(report.worst > 1e-3);
  CHECK(report.at == 13);
  CHECK(report.compared == 20);
  CHECK(report.sentence().find("element 13") == 0);
  CHECK(check_direction(f.x, f.gradient, normal_numbers(20, 2), f).worst > 1e-6);
}

TEST_CASE("check_gradient: what is not a number never passes") {
  waves f;
  f.gradient[3] = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isinf(check_gradient(f.x, f.gradient, f).worst));
}
