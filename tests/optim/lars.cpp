// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens.cpp and goldens_optimizers.cpp.
#include <cmath>
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/optim/lars.hpp>

#include "tests/support/planes.hpp"
#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;
using namespace support;

static_assert(OptimizerOn<lars, float, cpu> && OptimizerOn<lars, double, cpu>);

namespace {
constexpr double ulp = 0x1p-52;  // unit in the last place of 1
}  // namespace

TEST_CASE("lars: the denominator of the ratio is a sum of norms, not the norm of the sum") {
  const lars optimizer{.trust_coefficient = 0.02};
  CHECK(optimizer.ratio(3, 5, 0.5) == relative(0.02 * 3 / (5 + 0.5 * 3), ulp));
  // g = -decay w has |g + decay w| = 0: the norm of the sum would be infinite.
  CHECK(optimizer.ratio(2, 1, 0.5) == relative(0.02, ulp));
}

TEST_CASE("lars: the ratio is 1 where the weights or the gradient are zero") {
  const lars optimizer{};
  CHECK(optimizer.ratio(0, 5, 0.1) == 1);
  CHECK(optimizer.ratio(5, 0, 0.1) == 1);

  planes_of<lars> p{lars{.momentum = 0}};  // |w| = 0
  p.grads[0] = 1;
  p.step(0.25);
  CHECK(p.weights[0] == -0.25);
}

TEST_CASE("lars: without decay and epsilon, a factor on the loss changes no step") {
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

TEST_CASE("lars: kinds not in adapt_on have ratio 1, kinds not in decay_on no decay") {
  planes_of<lars> p{lars{.momentum = 0, .weight_decay = 0.1}};
  for (const segment& s : four_kinds) {
    p.weights[s.offset] = 2;
    p.grads[s.offset] = 1;
  }
  p.step(0.5);
  CHECK(p.weights[0] == relative(2 - 0.5 * 0.001 * 2 / (1 + 0.1 * 2) * (1 + 0.1 * 2), ulp));
  for (const std::size_t i : {64u, 128u, 192u}) CHECK(p.weights[i] == 1.5);

  planes_of<lars> q{lars{.momentum = 0, .weight_decay = 0, .adapt_on = kind::weight | kind::bias}};
  q.weights[192] = 2;
  q.grads[192] = 1;
  q.step(0.5);
  CHECK(q.weights[192] == relative(2 - 0.5 * 0.001 * 2, ulp));
}

TEST_CASE("lars: zero weights with zero gradients stay zero, also the padding") {
  planes_of<lars> p{lars{}};
  p.step(1);
  CHECK(p.weights == std::vector<double>(256));
  p.weights[0] = p.grads[0] = p.grads[192] = 1;
  p.step(1);
  CHECK(p.padding_is_zero());
}

TEST_CASE("lars_unscaled: the limits bound the ratio and the elements of the direction") {
  const lars_unscaled optimizer{.limits = {.ratio = 0.5, .element = 10}};
  CHECK(lars_unscaled{.trust_coefficient = 1}.ratio(1000, 1, 0) == 50);  // the default limit
  CHECK(optimizer.ratio(1000, 1e-6, 0) == 0.5);
  CHECK(optimizer.ratio(0, 1, 0) == 0.5);  // of the ratio 1 of a zero norm, too

  planes_of<lars_unscaled> p{
      lars_unscaled{.momentum = 0, .weight_decay = 0, .limits = {.ratio = 50, .element = 0.25}}};
  p.grads[192] = -4;  // a bias: ratio 1
  p.step(0.5);
  CHECK(p.weights[192] == 0.125);
}

TEST_CASE_TEMPLATE("lars: every form equals its equations with Nesterov momentum", O, lars,
                   lars_lr_outside, lars_unscaled) {
  constexpr bool lr_inside = std::is_same_v<O, lars>;
  constexpr bool ratio_inside = !std::is_same_v<O, lars_unscaled>;
  for (const bool nesterov : {false, true}) {
    planes_of<O> p{O{.momentum = 0.8,
                     .weight_decay = 0.1,
                     .trust_coefficient = 0.02,
                     .epsilon = 0,
                     .nesterov = nesterov}};
    p.weights[0] = 2;
    double w = 2, v = 0;
    for (int k = 0; k < 20; ++k) {
      const double g = std::sin(k) + w, lr = 0.3 + 0.1 * (k % 3);
      p.grads[0] = g;
      p.step(lr);
      const double ratio = 0.02 * std::abs(w) / (std::abs(g) + 0.1 * std::abs(w));
      const double step = (lr_inside ? lr : 1) * (ratio_inside ? ratio : 1) * (g + 0.1 * w);
      v = 0.8 * v + step;
      w -= (lr_inside ? 1 : lr) * (ratio_inside ? 1 : ratio) * (nesterov ? 0.8 * v + step : v);
      CHECK(std::abs(p.weights[0] - w) < 1e-14);  // some 10 roundings a step of numbers below 2
    }
  }
}

TEST_CASE(
    "larc leaves a segment without gradient as it is, decay included; timm's form decays it") {
  planes_of<larc> apex{larc{.momentum = 0, .weight_decay = 0.5}};
  planes_of<lars_lr_outside> timm{lars_lr_outside{.momentum = 0, .weight_decay = 0.5}};
  apex.weights[0] = timm.weights[0] = 1;
  apex.step(1);
  timm.step(1);
  CHECK(apex.weights[0] == 1);
  CHECK(timm.weights[0] == 0.5);
}

TEST_CASE("larc limits a segment's rate to the learning rate, unless .clip is false") {
  for (const double learning_rate : {0.5, 2.0, 8.0}) {
    planes_of<larc> clip{larc{.momentum = 0, .weight_decay = 0, .trust_coefficient = 4}};
    planes_of<larc> scale{larc{.momentum = 0, .trust_coefficient = 4, .limits = {.clip = false}}};
    clip.weights[0] = scale.weights[0] = 1;
    clip.grads[0] = scale.grads[0] = 2;  // the ratio is 4 * 1 / (2 + 1e-8)
    clip.step(learning_rate);
    scale.step(learning_rate);
    CHECK(std::abs(clip.weights[0] - (1 - 2 * std::min(learning_rate, 2.0))) < 1e-7);
    CHECK(std::abs(scale.weights[0] - (1 - 4 * learning_rate)) < 1e-2 * learning_rate);
  }
}

// timm 1.0.31's Lars(lr=0.1, weight_decay=0) steps from (3, 4) to (2.9, 4), always_adapt=True to
// (2.9995, 4).
TEST_CASE(
    "lars: without always_adapt there is no ratio where there is no weight decay, as in timm") {
  const auto stepped = [](const lars_lr_outside& optimizer) {
    planes_of<lars_lr_outside> p{optimizer};
    p.weights[0] = 3;
    p.weights[1] = 4;
    p.grads[0] = 1;
    p.step(0.1);
    return p.weights[0];
  };
  CHECK(stepped({.weight_decay = 0, .always_adapt = false}) == relative(2.9, ulp));
  CHECK(stepped({.weight_decay = 0}) == relative(2.9995, 1e-11));  // epsilon is 1e-8
  // Nor for a kind that does not decay; with decay both are the same.
  CHECK(stepped({.weight_decay = 0.1, .decay_on = kind::bias, .always_adapt = false}) ==
        relative(2.9, ulp));
  CHECK(stepped({.weight_decay = 0.1, .always_adapt = false}) == stepped({.weight_decay = 0.1}));
  CHECK(stepped({.weight_decay = 0.1}) > 2.999);
}
