// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/simulated/stragglers.hpp>

using namespace cordee;

TEST_CASE("stragglers: random ones have their means") {
  const auto mean = [](const auto& stragglers) {
    double sum = 0;
    for (int rank = 0; rank < 100; ++rank)
      for (int k = 0; k < 1000; ++k) sum += stragglers(rank, k);
    return sum / 1e5;
  };
  // Five standard errors: of 0.1 E, and of Pareto's of shape 3, whose variance is 3/4.
  CHECK(std::abs(mean(exponential_stragglers{.mean = 0.1}) - 1.1) < 5 * 0.1 / std::sqrt(1e5));
  CHECK(std::abs(mean(heavy_tailed_stragglers{.shape = 3}) - 1.5) < 5 * std::sqrt(0.75 / 1e5));
}

TEST_CASE("stragglers: the tail's shape is above 0") {
  CHECK_THROWS_AS(heavy_tailed_stragglers{.shape = 0}.check(), usage_error);
  heavy_tailed_stragglers{.shape = 0.5}.check();
}
