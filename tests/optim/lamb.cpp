// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_optimizers.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/lamb.hpp>
#include <cordee/testing/optimizer_fixture.hpp>

#include "tests/support/planes.hpp"
#include "tests/support/relative.hpp"

using namespace cordee;
using support::planes_of;
using support::relative;

static_assert(OptimizerOn<lamb, float, cpu> && OptimizerOn<nvlamb, double, cpu>);

namespace {

double norm_of(const std::vector<double>& x, const segment& s) {
  double square = 0;
  for (std::size_t i = s.offset; i < s.end(); ++i) square += x[i] * x[i];
  return std::sqrt(square);
}

// |change of w| / |w| of each segment in the second of two steps at that learning rate.
template <class O>
std::vector<double> relative_steps(const O& optimizer, double learning_rate) {
  optimizer_fixture<O> fixture(optimizer);
  fixture.reset(3).set_gradient(1).step(learning_rate);
  const auto before = fixture.weights();
  fixture.set_gradient(2).step(learning_rate);
  auto moved = fixture.weights();
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] -= before[i];
  std::vector<double> steps;
  for (const segment& s : quadratic_table) steps.push_back(norm_of(moved, s) / norm_of(before, s));
  return steps;
}

}  // namespace

TEST_CASE("lamb: a step is lr |w| long in weights, with nvlamb in every segment") {
  for (const double learning_rate : {0.001, 0.1}) {
    const auto weights = relative_steps(lamb{}, learning_rate),
               every = relative_steps(nvlamb{}, learning_rate);
    // Differences of weights have an absolute error of 2^-53 |w|.
    const double tolerance = 1e-15 / learning_rate;
    for (std::size_t k = 0; k < quadratic_table.size(); ++k) {
      const segment& s = quadratic_table[k];
      if (s.size == 0 || s.kind == kind::statistic) continue;
      CAPTURE(s.name);
      CHECK(std::abs(every[k] / learning_rate - 1) < 4 * tolerance);
      if (s.kind == kind::weight)
        CHECK(std::abs(weights[k] / learning_rate - 1) < 4 * tolerance);
      else
        CHECK(std::abs(weights[k] / learning_rate - 1) > 1e-3);
    }
  }
}

TEST_CASE(
    "lamb: the ratio is |w| / |u|, and 1 where a norm is zero or the quotient is not finite") {
  const lamb optimizer{};
  CHECK(optimizer.ratio(3, 4) == 0.75);
  CHECK(optimizer.ratio(0, 4) == 1);
  CHECK(optimizer.ratio(3, 0) == 1);
  CHECK(optimizer.ratio(HUGE_VAL, HUGE_VAL) == 1);
  CHECK(nvlamb{}.ratio(1e300, 1e-300) == 1);
}

TEST_CASE("lamb: decay acts inside the ratio, on the kinds in decay_on alone") {
  // Without a gradient u is weight_decay w, and the step lr w for any decay.
  optimizer_fixture<lamb> fixture(lamb{.weight_decay = 0.3});
  const auto before = fixture.reset(4).weights();
  const auto after = fixture.set_gradient(1, 0).step(0.1).weights();
  for (const segment& s : quadratic_table)
    for (std::size_t i = s.offset; i < s.end(); ++i) {
      const double expected = s.kind == kind::weight ? 0.9 * before[i] : before[i];
      if (std::abs(after[i] - expected) > 1e-14) FAIL_CHECK(s.name << " " << i);
    }
}

// timm 1.0.31's Lamb(lr=0.1, weight_decay=0, max_grad_norm=None) steps from (3, 4) to (2.9, 4),
// always_adapt=True to (2.5, 4).
TEST_CASE(
    "lamb: without always_adapt there is no ratio where there is no weight decay, as in timm") {
  const auto stepped = [](const auto& optimizer) {
    planes_of<std::remove_cvref_t<decltype(optimizer)>> p{optimizer};
    p.weights[0] = 3;
    p.weights[1] = 4;
    p.grads[0] = 1;
    p.step(0.1);
    return p.weights[0];
  };
  const double root = 1e-7;  // u is 1 / (1 + epsilon), epsilon 1e-6, times lr
  CHECK(std::abs(stepped(lamb{.weight_decay = 0, .always_adapt = false}) - 2.9) < 2 * root);
  CHECK(std::abs(stepped(lamb{.weight_decay = 0}) - 2.5) < 1e-14);
  CHECK(std::abs(stepped(lambc{.weight_decay = 0}) - 2.9) < 2 * root);
  CHECK(std::abs(stepped(nvlamb{.decay_on = kind::bias, .always_adapt = false}) - 2.9) < 2 * root);
  CHECK(stepped(lamb{.always_adapt = false}) == stepped(lamb{}));
}
