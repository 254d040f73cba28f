// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/binary_cross_entropy.hpp>

#include "tests/nn/loss_fixture.hpp"

using namespace cordee;

TEST_CASE("binary_cross_entropy: loss and gradient of PyTorch") {
  // torch.nn.functional.binary_cross_entropy_with_logits(z, t), with the targets t of timm's loss
  check_golden(evaluate_loss(binary_cross_entropy{}, {2, 1, -1}, 0, 0, 1), 0.584483795359806,
               {-0.0397343073407059, 0.2436861928766683, 0.08964714045666504});
  check_golden(evaluate_loss(binary_cross_entropy{0.1}, {2, 1, -1}, 0, 2, 0.25F),
               1.3039282398042504, {0.2074879148815163, 0.2325750817655572, -0.14646397065444608});
  // 1 for both labels of the mixed sample
  check_golden(
      evaluate_loss(binary_cross_entropy{.target_threshold = 0.2}, {2, 1, -1}, 0, 2, 0.25F),
      0.9178171286931395, {-0.0397343073407059, 0.2436861928766683, -0.2436861928766683});
  // far from zero, where exp(z) overflows
  check_golden(evaluate_loss(binary_cross_entropy{}, {800, -800, 0.5}, 1, 1, 1), 533.6580256613934,
               {0.3333333333333333, -0.3333333333333333, 0.20748644373395153});
}

TEST_CASE("binary_cross_entropy: the gradient is the derivative") {
  for (const double smoothing : {0.0, 0.1}) {
    check_derivative(binary_cross_entropy{smoothing});
    check_derivative(binary_cross_entropy{smoothing, 0.2});
  }
}

TEST_CASE("binary_cross_entropy: probabilities are sigmoids") {
  using sample = binary_cross_entropy::sample_loss;
  CHECK(sample::probability(0) == 0.5);
  CHECK(sample::probability(1) + sample::probability(-1) == 1);
  CHECK(sample::probability(std::log(3.0)) == doctest::Approx(0.75).epsilon(1e-15));
  CHECK(sample::probability(-1000) == 0);
}

TEST_CASE("binary_cross_entropy: a NaN logit makes the loss NaN") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(evaluate_loss(binary_cross_entropy{}, {nan, 0}, 1, 1, 1).value));
}

TEST_CASE(
    "binary_cross_entropy: values outside their ranges are refused, evaluation has defaults") {
  CHECK_THROWS_AS(binary_cross_entropy{1.5}.check(), usage_error);
  CHECK_THROWS_AS((binary_cross_entropy{0, 1}.check()), usage_error);
  CHECK_THROWS_AS((binary_cross_entropy{0, -0.5}.check()), usage_error);
  CHECK_NOTHROW((binary_cross_entropy{1, 0.5}.check()));
  CHECK(binary_cross_entropy{0.1, 0.2}.in_evaluation() == binary_cross_entropy{});
  CHECK(binary_cross_entropy{0.1, 0.2}.describe() ==
        "binary cross-entropy of each class, label smoothing 0.1, targets above 0.2 are 1");
}
