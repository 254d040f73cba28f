// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors are reached through the trainer: tests/train/goldens_rules.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/adamw.hpp>
#include <cordee/testing/workbench.hpp>

using namespace cordee;

static_assert(OptimizerOn<adamw, float, cpu> && OptimizerOn<adamw, double, cpu>);

TEST_CASE("adamw takes the path of its equations, written out in double precision") {
  const adamw rule{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1};
  workbench<adamw> bench(rule);
  bench.start(1);
  auto w = bench.weights();
  std::vector<double> m(w.size()), q(w.size());
  for (int t = 1; t <= 12; ++t) {
    const double rate = 0.1 / t;
    const auto g = bench.draw_gradient(static_cast<std::uint64_t>(t)).gradient();
    bench.step(rate);
    for (const segment& s : bowl_table)
      for (std::size_t i = s.offset; i < s.end(); ++i) {
        m[i] = 0.8 * m[i] + (1 - 0.8) * g[i];
        q[i] = 0.95 * q[i] + (1 - 0.95) * g[i] * g[i];
        const double first = m[i] / (1 - std::pow(0.8, t)), second = q[i] / (1 - std::pow(0.95, t));
        if (s.what == kind::weight) w[i] *= 1 - rate * 0.1;
        w[i] -= rate * first / (std::sqrt(second) + 1e-3);
      }
    const auto stepped = bench.weights();
    double worst = 0;
    for (std::size_t i = 0; i < w.size(); ++i) worst = std::max(worst, std::abs(w[i] - stepped[i]));
    CHECK(worst < 1e-13);
  }
}

TEST_CASE("a gradient whose square no float holds is one full step, and the next steps go on") {
  workbench<adamw, float> bench(adamw{.weight_decay = 0});
  bench.start(1, 0).draw_gradient(1, 1e30f).step(0.5);
  const std::size_t at = 0;
  const float after = bench.weights()[at];
  CHECK(std::abs(after) == doctest::Approx(0.5));  // the bound of a first step, as for any gradient
  // Its square fades from v by beta2 a step; an infinite one never would.
  for (int k = 0; k < 3; ++k) bench.draw_gradient(1, 1e30f).step(0.5);
  CHECK(std::abs(bench.weights()[at]) == doctest::Approx(2.0));
}

TEST_CASE("adamw: the first step is as long as the rate whatever the gradient's size") {
  for (const float size : {1e-4f, 1.0f, 1e4f, 1e18f, 1e25f, 1e38f}) {
    CAPTURE(size);
    workbench<adamw, float> bench(adamw{.epsilon = 1e-12, .weight_decay = 0});
    bench.start(1, 0).draw_gradient(2, size).step(0.25);
    for (const std::size_t at : {0u, 1u, 2u, 1000u})
      CHECK(std::abs(bench.weights()[at]) == doctest::Approx(0.25).epsilon(1e-4));
  }
}
