// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/topologies.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/topologies/stability.hpp>
#include <cordee/comm/topologies/topologies.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

static_assert(Topology<topologies::ring> && Topology<topologies::adjacency> &&
              Topology<topologies::lazy<topologies::random_matching>> && !Topology<int>);
static_assert(TranslationInvariant<topologies::lazy<topologies::torus2d>> &&
              !TranslationInvariant<topologies::lazy<topologies::star>>);
static_assert(SymmetricTopology<topologies::lazy<topologies::ring>> &&
              !SymmetricTopology<topologies::lazy<topologies::one_peer>> &&
              !SymmetricTopology<topologies::adjacency>);
static_assert(UniformMatching<topologies::lazy<topologies::random_matching>> &&
              !UniformMatching<topologies::lazy<topologies::odd_even>>);

TEST_CASE("topologies: every rank lists others once, with weights whose sum is below 1") {
  for_each_topology([](const auto& topology, int ranks) {
    for (std::int64_t round = 0; round < 7; ++round)
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& edges = topology.in_edges(rank, ranks, round);
        double diagonal = 1;
        for (const topologies::edge& e : std::span<const topologies::edge>(edges)) {
          CHECK((e.peer >= 0 && e.peer < ranks && e.peer != rank));
          CHECK(e.weight > 0);
          CHECK(std::count_if(edges.begin(), edges.end(), [&](const topologies::edge& other) {
                  return other.peer == e.peer;
                }) == 1);
          diagonal -= e.weight;
        }
        CHECK(diagonal > 0);
      }
  });
}

TEST_CASE(
    "topologies: the matrix of every round is doubly stochastic, and symmetric where declared") {
  for_each_topology([](const auto& topology, int ranks) {
    CAPTURE(topology.describe());
    CAPTURE(ranks);
    for (std::int64_t round = 0; round < 7; ++round) {
      const auto w = matrix_of(topology, ranks, round);
      for (std::size_t i = 0; i < w.size(); ++i) {
        double row = 0, column = 0;
        for (std::size_t j = 0; j < w.size(); ++j) {
          row += w[i][j];
          column += w[j][i];
          if constexpr (SymmetricTopology<std::remove_cvref_t<decltype(topology)>>)
            CHECK(std::abs(w[i][j] - w[j][i]) < 1e-15);
        }
        CHECK(std::abs(row - 1) < 1e-14);
        CHECK(std::abs(column - 1) < 1e-14);
      }
    }
  });
}

TEST_CASE("topologies: they repeat after their period, and not before") {
  for_each_topology([](const auto& topology, int ranks) {
    CAPTURE(topology.describe());
    CAPTURE(ranks);
    const int period = topology.period(ranks);
    if (period == 0 || ranks < 3) return;
    for (std::int64_t round = 0; round < 5; ++round)
      CHECK(matrix_of(topology, ranks, round) == matrix_of(topology, ranks, round + period));
    for (int k = 1; k < period; ++k)
      CHECK(matrix_of(topology, ranks, 0) != matrix_of(topology, ranks, k));
  });
}

TEST_CASE("topologies: translation-invariant ones have weights of differences of ranks") {
  for_each_topology([](const auto& topology, int ranks) {
    using T = std::remove_cvref_t<decltype(topology)>;
    if constexpr (TranslationInvariant<T>) {
      CAPTURE(topology.describe());
      CAPTURE(ranks);
      const std::vector<int> orders = topology.dimensions(ranks);
      const auto minus = [&](int a, int b) {  // in the group, row-major
        int c = 0, stride = 1;
        for (std::size_t k = orders.size(); k-- > 0;) {
          c += (a % orders[k] - b % orders[k] + orders[k]) % orders[k] * stride;
          stride *= orders[k];
          a /= orders[k];
          b /= orders[k];
        }
        return static_cast<std::size_t>(c);
      };
      for (std::int64_t round = 0; round < 4; ++round) {
        const auto w = matrix_of(topology, ranks, round);
        for (int i = 0; i < ranks; ++i)
          for (int j = 0; j < ranks; ++j)
            CHECK(std::abs(w[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] -
                           w[0][minus(j, i)]) < 1e-15);
      }
    }
  });
}

TEST_CASE(
    "topologies: numbers of ranks that one cannot serve are refused by an error that names "
    "others") {
  const auto check_refusal = [](const auto& topology, int ranks, const char* sentence) {
    const std::string thrown = error_message([&] { (void)topology.in_edges(0, ranks, 0); });
    CAPTURE(thrown);
    CHECK(contains(thrown, sentence));
  };
  for (const int ranks : {3, 5, 6, 7, 9, 12, 15}) {
    check_refusal(topologies::hypercube{}, ranks,
                  "hypercube: the number of ranks must be a power of two; ring");
    check_refusal(topologies::xor_matching{}, ranks,
                  "xor_matching: the number of ranks must be a power of two; odd");
    check_refusal(topologies::lazy{topologies::hypercube{}}, ranks,
                  "hypercube: the number of ranks must be a power of two");
  }
  for (const int ranks : {3, 5, 7, 9, 15}) {
    check_refusal(topologies::odd_even{}, ranks,
                  "odd_even: the number of ranks must be even; ring");
    check_refusal(topologies::random_matching{}, ranks,
                  "random_matching: the number of ranks must be even; ring");
    check_refusal(topologies::torus2d{2}, ranks, "must be a multiple of the number of rows");
    check_refusal(topologies::mesh2d{2}, ranks, "must be a multiple of the number of rows");
  }
  for (const int ranks : {2, 4, 8, 16}) {
    CHECK(error_message([&] { (void)topologies::hypercube{}.in_edges(0, ranks, 0); }).empty());
    CHECK(error_message([&] { (void)topologies::odd_even{}.in_edges(0, ranks, 0); }).empty());
    CHECK(error_message([&] { (void)topologies::mesh2d{2}.in_edges(0, ranks, 0); }).empty());
  }
  check_refusal(topologies::lazy{topologies::ring{}, 1.5}, 4,
                "theta must be above 0 and at most 1");
  check_refusal(topologies::lazy{topologies::ring{}, 0}, 4, "theta must be above 0 and at most 1");
}
