// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of every topology on every number of ranks: tests/comm/topologies/topologies.cpp.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/topologies/adjacency.hpp>
#include <cordee/comm/topologies/fixed.hpp>
#include <cordee/comm/topologies/stability.hpp>

#include "tests/support/topologies.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

TEST_CASE("mesh2d: Metropolis-Hastings weights on 2 x 3 ranks are those of adjacency::metropolis") {
  const auto w = matrix_of(topologies::mesh2d{}, 6, 0);
  const std::vector<double> first{5.0 / 12, 0.25, 0, 1.0 / 3, 0, 0},
      second{0.25, 0.25, 0.25, 0, 0.25, 0};
  for (std::size_t j = 0; j < 6; ++j) {
    CHECK(std::abs(w[0][j] - first[j]) < 1e-15);
    CHECK(std::abs(w[1][j] - second[j]) < 1e-15);
  }
  const auto listed =
      topologies::adjacency::metropolis({{1, 3}, {0, 2, 4}, {1, 5}, {0, 4}, {1, 3, 5}, {2, 4}});
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 6; ++j)
      CHECK(std::abs(matrix_of(listed, 6, 0)[i][j] - w[i][j]) < 1e-15);
  CHECK(std::abs(spectral_gap(topologies::mesh2d{}, 6) - 0.25) <
        1e-12);  // the second eigenvalue is 3/4
  CHECK(std::abs(spectral_gap(listed, 6) - 0.25) < 1e-12);
}

TEST_CASE("symmetric_exponential is the mean of exponential and its reverse") {
  for (const int ranks : topology_sizes) {
    const matrix w = matrix_of(topologies::exponential{}, ranks, 0);
    const matrix symmetric = matrix_of(topologies::symmetric_exponential{}, ranks, 0);
    for (std::size_t i = 0; i < w.size(); ++i)
      for (std::size_t j = 0; j < w.size(); ++j)
        CHECK(std::abs(symmetric[i][j] - (w[i][j] + w[j][i]) / 2) < 1e-15);
  }
}
