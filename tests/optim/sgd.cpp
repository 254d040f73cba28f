// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/sgd.hpp>

#include "tests/support/planes.hpp"

using namespace cordee;
using namespace support;

static_assert(OptimizerOn<sgd, float, cpu> && OptimizerOn<velocity_sgd, double, cpu>);

TEST_CASE_TEMPLATE("sgd: zero weights with zero gradients stay zero, also the padding", O, sgd,
                   velocity_sgd) {
  planes_of<O> p{O{.weight_decay = 0.1, .nesterov = true}};
  for (int k = 0; k < 3; ++k) p.step(1);
  CHECK(p.weights == std::vector<double>(256));
  p.grads[0] = p.grads[64] = p.grads[192] = 1;
  p.step(1);
  CHECK(p.weights[0] != 0);
  CHECK(p.padding_is_zero());
}

TEST_CASE_TEMPLATE("sgd: decay acts on the kinds in decay_on, by default on weights alone", O, sgd,
                   velocity_sgd) {
  planes_of<O> p{O{.momentum = 0, .weight_decay = 0.5}};
  for (const segment& s : four_kinds) p.weights[s.offset] = 1;
  p.step(1);
  CHECK(p.weights[0] == 0.5);
  for (const std::size_t i : {64u, 128u, 192u}) CHECK(p.weights[i] == 1);

  planes_of<O> q{O{.momentum = 0, .weight_decay = 0.5, .decay_on = kind::bias | kind::scale}};
  for (const segment& s : four_kinds) q.weights[s.offset] = 1;
  q.step(1);
  CHECK(q.weights[0] == 1);
  CHECK(q.weights[64] == 0.5);
  CHECK(q.weights[128] == 1);
  CHECK(q.weights[192] == 0.5);
}

TEST_CASE("sgd and velocity_sgd agree while the learning rate is constant, with Nesterov too") {
  for (const bool nesterov : {false, true}) {
    planes_of<sgd> p{sgd{.momentum = 0.8, .weight_decay = 0.1, .nesterov = nesterov}};
    planes_of<velocity_sgd> c{
        velocity_sgd{.momentum = 0.8, .weight_decay = 0.1, .nesterov = nesterov}};
    p.weights[1] = c.weights[1] = 1;
    for (int k = 0; k < 30; ++k) {
      p.grads[1] = std::sin(k) + p.weights[1];
      c.grads[1] = std::sin(k) + c.weights[1];
      p.step(0.1);
      c.step(0.1);
      CHECK(std::abs(p.weights[1] - c.weights[1]) < 1e-14);
    }
  }
}

TEST_CASE("with momentum correction sgd and velocity_sgd agree under all nonzero learning rates") {
  planes_of<sgd> p{sgd{.momentum = 0.9}};
  planes_of<velocity_sgd> c{velocity_sgd{.momentum = 0.9}};
  for (const double learning_rate : {0.1, 0.7, 0.3, 0.001, 2.0}) {
    p.grads[0] = c.grads[0] = learning_rate + 1;
    p.step(learning_rate);
    c.step(learning_rate);
    CHECK(std::abs(p.weights[0] - c.weights[0]) < 1e-13);
  }
  planes_of<velocity_sgd> zero{velocity_sgd{.momentum = 0.9}};
  zero.grads[0] = 1;
  for (const double learning_rate : {0.0, 0.0, 0.1, 0.0, 1e-8, 0.1}) zero.step(learning_rate);
  CHECK(std::isfinite(zero.weights[0]));
}

TEST_CASE("sgd refuses Nesterov momentum without momentum or with dampening") {
  CHECK_THROWS_AS((sgd{.momentum = 0, .nesterov = true}.check()), usage_error);
  CHECK_THROWS_AS((sgd{.dampening = 0.1, .nesterov = true}.check()), usage_error);
}

TEST_CASE("sgd without momentum ignores dampening, as PyTorch does") {
  planes_of<sgd> p{sgd{.momentum = 0, .dampening = 0.3}};
  for (int k = 1; k <= 3; ++k) {
    p.grads[0] = 1;
    p.step(1);
    CHECK(p.weights[0] == -k);
  }
}

TEST_CASE("a step at learning rate 0 empties velocity_sgd's momentum, and not that of sgd") {
  planes_of<velocity_sgd> c{velocity_sgd{.momentum = 0.9}};
  planes_of<sgd> p{sgd{.momentum = 0.9}};
  for (const double learning_rate : {0.1, 0.0, 0.1}) {
    c.grads[0] = p.grads[0] = learning_rate == 0 ? 0 : 1;
    c.step(learning_rate);
    p.step(learning_rate);
  }
  CHECK(std::abs(c.weights[0] + 0.2) < 1e-15);
  CHECK(std::abs(p.weights[0] + 0.1 + 0.1 * (1 + 0.81)) < 1e-15);
}
