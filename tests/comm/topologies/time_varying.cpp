// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of every topology on every number of ranks: tests/comm/topologies/topologies.cpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/topologies/time_varying.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/topologies.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("one_peer and xor_matching make the exact mean of 2^d ranks in a period") {
  const auto after_a_period = [](const auto& topology, int ranks) {
    matrix powers = matrix_of(topology, ranks, 0);
    for (int k = 1; k < topology.period(ranks); ++k)
      powers = product(matrix_of(topology, ranks, k), powers);
    double worst = 0;
    for (const auto& row : powers)
      for (const double x : row) worst = std::max(worst, std::abs(x - 1.0 / ranks));
    return worst;
  };
  for (const int ranks : {2, 4, 8, 16}) {
    CHECK(after_a_period(topologies::one_peer{}, ranks) < 1e-16);
    CHECK(after_a_period(topologies::xor_matching{}, ranks) < 1e-16);
  }
  CHECK(close(after_a_period(topologies::one_peer{}, 6), 1.0 / 12, 1e-14));
}

TEST_CASE(
    "random_matching: all ranks draw the same, each round another, all partners equally often") {
  for (const int ranks : {2, 4, 12, 16}) {
    std::vector<int> count(static_cast<std::size_t>(ranks));
    for (std::int64_t round = 0; round < 400; ++round) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int peer = topologies::random_matching{5}.in_edges(rank, ranks, round).front().peer;
        CHECK(topologies::random_matching{5}.in_edges(peer, ranks, round).front().peer == rank);
      }
      ++count[static_cast<std::size_t>(
          topologies::random_matching{5}.in_edges(0, ranks, round).front().peer)];
    }
    for (int peer = 1; peer < ranks; ++peer) {  // binomial: five deviations
      const double expected = 400.0 / (ranks - 1);
      CHECK(std::abs(count[static_cast<std::size_t>(peer)] - expected) <= 5 * std::sqrt(expected));
    }
  }
  bool differs = false;
  for (int round = 0; round < 9; ++round)
    differs = differs || topologies::random_matching{1}.in_edges(0, 8, round).front().peer !=
                             topologies::random_matching{2}.in_edges(0, 8, round).front().peer;
  CHECK(differs);
}
