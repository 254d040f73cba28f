// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_optimizers.cpp.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/optim/adamw.hpp>
#include <cordee/testing/optimizer_fixture.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

static_assert(OptimizerOn<adamw, float, cpu> && OptimizerOn<adamw, double, cpu>);

namespace {
constexpr double float_ulp = 0x1p-23;
}  // namespace

TEST_CASE("adamw equals its equations (docs/mathematics.md, 4.1) in double precision") {
  const adamw optimizer{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1};
  optimizer_fixture<adamw> fixture(optimizer);
  fixture.reset(1);
  auto w = fixture.weights();
  std::vector<double> m(w.size()), v(w.size());
  for (int t = 1; t <= 12; ++t) {
    const double learning_rate = 0.1 / t;
    const auto g = fixture.set_gradient(static_cast<std::uint64_t>(t)).gradient();
    fixture.step(learning_rate);
    for (const segment& s : quadratic_table)
      for (std::size_t i = s.offset; i < s.end(); ++i) {
        m[i] = 0.8 * m[i] + (1 - 0.8) * g[i];
        v[i] = 0.95 * v[i] + (1 - 0.95) * g[i] * g[i];
        const double first = m[i] / (1 - std::pow(0.8, t)), second = v[i] / (1 - std::pow(0.95, t));
        if (s.kind == kind::weight) w[i] *= 1 - learning_rate * 0.1;
        w[i] -= learning_rate * first / (std::sqrt(second) + 1e-3);
      }
    const auto stepped = fixture.weights();
    // Some 10 roundings a step, of numbers below 8.
    double max_error = 0;
    for (std::size_t i = 0; i < w.size(); ++i)
      max_error = std::max(max_error, std::abs(w[i] - stepped[i]));
    CHECK(max_error < t * 10 * 8 * std::numeric_limits<double>::epsilon());
  }
}

TEST_CASE(
    "adamw: a gradient whose square exceeds float gives one full step, and later steps continue") {
  optimizer_fixture<adamw, float> fixture(adamw{.weight_decay = 0});
  fixture.reset(1, 0).set_gradient(1, 1e30f).step(0.5);
  // The first step has the length of the learning rate for any gradient: m^ / sqrt(v^) is 1, with
  // some 8 roundings.
  CHECK(std::abs(fixture.weights()[0]) == relative(0.5f, 8 * float_ulp));
  // Its square decays in v by beta2 a step; an infinite one would stay.
  for (int k = 0; k < 3; ++k) fixture.set_gradient(1, 1e30f).step(0.5);
  CHECK(std::abs(fixture.weights()[0]) == relative(2.0f, 32 * float_ulp));
}

TEST_CASE("adamw: the first step has the length of the learning rate, for gradients of any size") {
  for (const float size : {1e-4f, 1.0f, 1e4f, 1e18f, 1e25f, 1e38f}) {
    CAPTURE(size);
    optimizer_fixture<adamw, float> fixture(adamw{.epsilon = 1e-12, .weight_decay = 0});
    fixture.reset(1, 0).set_gradient(2, size).step(0.25);
    for (const std::size_t i : {0u, 1u, 2u, 1000u})
      CHECK(std::abs(fixture.weights()[i]) == relative(0.25f, 8 * float_ulp));
  }
}
