// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors are reached through the trainer: tests/train/goldens.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/lars.hpp>

#include "tests/support/planes.hpp"

using namespace cordee;
using namespace support;

static_assert(OptimizerOn<lars, float, cpu> && OptimizerOn<lars, double, cpu>);

TEST_CASE("the ratio is trust |w| / (|g| + decay |w|): a sum of norms, not the norm of the sum") {
  const lars rule{.trust = 0.02};
  CHECK(rule.ratio(3, 5, 0.5) == doctest::Approx(0.02 * 3 / (5 + 0.5 * 3)));
  // g = -decay w has |g + decay w| = 0: the norm of the sum would be infinite.
  CHECK(rule.ratio(2, 1, 0.5) == doctest::Approx(0.02));
}

TEST_CASE("a zero weight or a zero gradient falls back to the whole rate") {
  const lars rule{};
  CHECK(rule.ratio(0, 5, 0.1) == 1);
  CHECK(rule.ratio(5, 0, 0.1) == 1);

  planes_of<lars> p{lars{.momentum = 0}};  // zero-initialised weight: |w| = 0
  p.grads[0] = 1;
  p.step(0.25);
  CHECK(p.weights[0] == -0.25);
}

TEST_CASE("scaling the loss leaves the step alone without decay and epsilon") {
  for (const double scale : {1e-6, 7.0, 1e6}) {
    planes_of<lars> a{lars{.weight_decay = 0}}, b = a;
    for (const std::size_t i : {0u, 1u, 2u}) {
      a.weights[i] = b.weights[i] = 1.0 + static_cast<double>(i);
      a.grads[i] = static_cast<double>(i) - 0.5;
      b.grads[i] = scale * a.grads[i];
    }
    a.step(0.3);
    b.step(0.3);
    for (const std::size_t i : {0u, 1u, 2u}) CHECK(std::abs(a.weights[i] - b.weights[i]) < 1e-15);
  }
}

TEST_CASE(
    "scale, shift and bias take the whole rate without decay, unless they are told to adapt") {
  planes_of<lars> p{lars{.momentum = 0, .weight_decay = 0.1}};
  for (const segment& s : four_kinds) {
    p.weights[s.offset] = 2;
    p.grads[s.offset] = 1;
  }
  p.step(0.5);
  CHECK(p.weights[0] == doctest::Approx(2 - 0.5 * 0.001 * 2 / (1 + 0.1 * 2) * (1 + 0.1 * 2)));
  for (const std::size_t at : {64u, 128u, 192u}) CHECK(p.weights[at] == 1.5);

  planes_of<lars> q{lars{.momentum = 0, .weight_decay = 0, .adapts = kind::weight | kind::bias}};
  q.weights[192] = 2;
  q.grads[192] = 1;
  q.step(0.5);
  CHECK(q.weights[192] == doctest::Approx(2 - 0.5 * 0.001 * 2));
}

TEST_CASE("zero weight and zero gradient stay zero, and so does the padding") {
  planes_of<lars> p{lars{}};
  p.step(1);
  CHECK(p.weights == std::vector<double>(256));
  p.weights[0] = p.grads[0] = p.grads[192] = 1;
  p.step(1);
  CHECK(p.padding_is_zero());
}
