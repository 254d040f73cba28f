// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/nn/mean_squared_error.hpp>

#include "tests/nn/loss_fixture.hpp"

using namespace cordee;

TEST_CASE("mean_squared_error: loss and gradient of PyTorch") {
  // torch.nn.functional.mse_loss(z, t)
  check_golden(evaluate_loss(mean_squared_error{}, {2, 1, -1}, 0, 2, 0.25F), 2.375,
               {1.1666666666666665, 0.6666666666666666, -1.1666666666666665});
}

TEST_CASE("mean_squared_error: the gradient is the derivative") {
  check_derivative(mean_squared_error{});
}

TEST_CASE("mean_squared_error: probabilities are the logits, limited to 0 .. 1") {
  using sample = mean_squared_error::sample_loss;
  CHECK(sample::probability(0.25) == 0.25);
  CHECK(sample::probability(-0.5) == 0);
  CHECK(sample::probability(1.5) == 1);
  CHECK(std::isnan(sample::probability(std::numeric_limits<double>::quiet_NaN())));
}
