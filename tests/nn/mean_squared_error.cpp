// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
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
