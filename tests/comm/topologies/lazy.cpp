// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of every topology on every number of ranks: tests/comm/topologies/topologies.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/topologies/fixed.hpp>
#include <cordee/comm/topologies/lazy.hpp>
#include <cordee/comm/topologies/time_varying.hpp>

#include "tests/support/topologies.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("lazy: its matrix is theta W + (1 - theta) I") {
  for (const double theta : {0.25, 0.5, 1.0})
    for (const int ranks : {1, 2, 3, 5, 8}) {
      const matrix w = matrix_of(topologies::star{}, ranks, 0),
                   lazy_w = matrix_of(topologies::lazy{topologies::star{}, theta}, ranks, 0);
      for (std::size_t i = 0; i < w.size(); ++i)
        for (std::size_t j = 0; j < w.size(); ++j)
          CHECK(std::abs(lazy_w[i][j] - (theta * w[i][j] + (i == j ? 1 - theta : 0))) < 1e-15);
    }
}

TEST_CASE("lazy: has the period and the peers of its topology, and describes itself") {
  const topologies::lazy topology{topologies::one_peer{}, 0.3};
  CHECK(topology.period(8) == topologies::one_peer{}.period(8));
  for (int round = 0; round < 6; ++round)
    CHECK(topology.in_edges(3, 8, round).front().peer ==
          topologies::one_peer{}.in_edges(3, 8, round).front().peer);
  CHECK(topology.describe() == "lazy " + topologies::one_peer{}.describe() + " (theta 0.3)");
  CHECK(topologies::lazy{topologies::ring{}}.theta == 0.5);
}
