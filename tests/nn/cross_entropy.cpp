// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/cross_entropy.hpp>

#include "tests/nn/loss_fixture.hpp"

using namespace cordee;

TEST_CASE("cross_entropy: loss and gradient of PyTorch, with soft targets and smoothing") {
  // torch.nn.functional.cross_entropy(z, t, label_smoothing=eps)
  check_golden(evaluate_loss(cross_entropy{}, {2, 1, -1}, 0, 0, 1), 0.34901221676818633,
               {-0.2946154873017588, 0.25949646034241913, 0.03511902695933973});
  check_golden(evaluate_loss(cross_entropy{0.1}, {2, 1, -1}, 0, 2, 0.25F), 2.50734555010152,
               {0.44705117936490785, 0.2261631270090858, -0.6732143063739936});
}

TEST_CASE("cross_entropy: the gradient is the derivative") {
  for (const double smoothing : {0.0, 0.1, 1.0}) check_derivative(cross_entropy{smoothing});
}

TEST_CASE("cross_entropy: loss and gradient of uniform logits") {
  const auto evaluated = [](double smoothing) {
    return evaluate_loss(cross_entropy{smoothing}, {3, 3, 3, 3}, 0, 0, 1);
  };
  CHECK(evaluated(0).value == doctest::Approx(std::log(4.0)).epsilon(1e-15));
  CHECK(evaluated(0.1).value == doctest::Approx(std::log(4.0)).epsilon(1e-15));
  CHECK(evaluated(0).gradient == std::vector{-0.75, 0.25, 0.25, 0.25});
  CHECK(evaluated(1).gradient == std::vector<double>(4));  // the target is uniform
}

TEST_CASE("cross_entropy: smoothing outside 0 .. 1 is refused, evaluation has none") {
  CHECK_THROWS_AS(cross_entropy{-0.1}.check(), usage_error);
  CHECK_THROWS_AS(cross_entropy{1.1}.check(), usage_error);
  CHECK_NOTHROW(cross_entropy{1}.check());
  CHECK(cross_entropy{0.1}.in_evaluation() == cross_entropy{});
  CHECK(cross_entropy{0.1}.describe() == "cross-entropy, label smoothing 0.1");
}
