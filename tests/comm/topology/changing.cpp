// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of every graph on every number of ranks: tests/comm/topology.cpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/topology/changing.hpp>

#include "tests/support/graphs.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("one_peer and XOR matchings leave the exact mean after a period of 2^d ranks") {
  const auto after_a_period = [](const auto& graph, int ranks) {
    matrix all = matrix_of(graph, ranks, 0);
    for (int k = 1; k < graph.period(ranks); ++k) all = product(matrix_of(graph, ranks, k), all);
    double worst = 0;
    for (const auto& row : all)
      for (const double x : row) worst = std::max(worst, std::abs(x - 1.0 / ranks));
    return worst;
  };
  for (const int ranks : {2, 4, 8, 16}) {
    CHECK(after_a_period(one_peer{}, ranks) < 1e-16);
    CHECK(after_a_period(xor_matching{}, ranks) < 1e-16);
  }
  CHECK(close(after_a_period(one_peer{}, 6), 1.0 / 12, 1e-14));
}

TEST_CASE("random matchings: everybody draws the same, another one every round, all partners") {
  for (const int ranks : {2, 4, 12, 16}) {
    std::vector<int> met(static_cast<std::size_t>(ranks));
    for (std::int64_t round = 0; round < 400; ++round) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int peer = random_matching{5}.in(rank, ranks, round).front().peer;
        CHECK(random_matching{5}.in(peer, ranks, round).front().peer == rank);
      }
      ++met[static_cast<std::size_t>(random_matching{5}.in(0, ranks, round).front().peer)];
    }
    for (int peer = 1; peer < ranks; ++peer) {  // binomial: five deviations
      const double each = 400.0 / (ranks - 1);
      CHECK(std::abs(met[static_cast<std::size_t>(peer)] - each) <= 5 * std::sqrt(each));
    }
  }
  bool differs = false;
  for (int round = 0; round < 9; ++round)
    differs = differs || random_matching{1}.in(0, 8, round).front().peer !=
                             random_matching{2}.in(0, 8, round).front().peer;
  CHECK(differs);
}
