// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of every graph on every number of ranks: tests/comm/topology.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/topology/changing.hpp>
#include <cordee/comm/topology/fixed.hpp>
#include <cordee/comm/topology/lazy.hpp>

#include "tests/support/graphs.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("lazy: theta of the graph's matrix, and of staying as one is the rest") {
  for (const double theta : {0.25, 0.5, 1.0})
    for (const int ranks : {1, 2, 3, 5, 8}) {
      const matrix whole = matrix_of(star{}, ranks, 0),
                   part = matrix_of(lazy{star{}, theta}, ranks, 0);
      for (std::size_t i = 0; i < whole.size(); ++i)
        for (std::size_t j = 0; j < whole.size(); ++j)
          CHECK(std::abs(part[i][j] - (theta * whole[i][j] + (i == j ? 1 - theta : 0))) < 1e-15);
    }
}

TEST_CASE("lazy: a graph that changes does so as before, and says what it is") {
  const lazy graph{one_peer{}, 0.3};
  CHECK(graph.period(8) == one_peer{}.period(8));
  for (int round = 0; round < 6; ++round)
    CHECK(graph.in(3, 8, round).front().peer == one_peer{}.in(3, 8, round).front().peer);
  CHECK(graph.describe() == "lazy " + one_peer{}.describe() + " (theta 0.3)");
  CHECK(lazy{cycle{}}.theta == 0.5);
}
