// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/stability.hpp>
#include <cordee/comm/topology.hpp>

#include "tests/support/graphs.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(Graph<cycle> && Graph<user_graph> && Graph<lazy<random_matching>> && !Graph<int>);
static_assert(TranslationInvariant<lazy<torus>> && !TranslationInvariant<lazy<star>>);
static_assert(Mutual<lazy<cycle>> && !Mutual<lazy<one_peer>> && !Mutual<user_graph>);
static_assert(MatchesAtRandom<lazy<random_matching>> && !MatchesAtRandom<lazy<odd_even>>);

TEST_CASE("graphs: every rank hears others once, with weights that leave it some of its own") {
  with_graphs([](const auto& graph, int ranks) {
    for (std::int64_t round = 0; round < 7; ++round)
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& heard = graph.in(rank, ranks, round);
        double own = 1;
        for (const edge& e : std::span<const edge>(heard)) {
          CHECK((e.peer >= 0 && e.peer < ranks && e.peer != rank));
          CHECK(e.weight > 0);
          CHECK(std::count_if(heard.begin(), heard.end(),
                              [&](const edge& other) { return other.peer == e.peer; }) == 1);
          own -= e.weight;
        }
        CHECK(own > 0);
      }
  });
}

TEST_CASE("graphs: the matrix of every round is doubly stochastic, and symmetric if it says so") {
  with_graphs([](const auto& graph, int ranks) {
    CAPTURE(graph.describe());
    CAPTURE(ranks);
    for (std::int64_t round = 0; round < 7; ++round) {
      const auto w = matrix_of(graph, ranks, round);
      for (std::size_t i = 0; i < w.size(); ++i) {
        double row = 0, column = 0;
        for (std::size_t j = 0; j < w.size(); ++j) {
          row += w[i][j];
          column += w[j][i];
          if constexpr (Mutual<std::remove_cvref_t<decltype(graph)>>)
            CHECK(std::abs(w[i][j] - w[j][i]) < 1e-15);
        }
        CHECK(std::abs(row - 1) < 1e-14);
        CHECK(std::abs(column - 1) < 1e-14);
      }
    }
  });
}

TEST_CASE("graphs repeat themselves after their period, and not before") {
  with_graphs([](const auto& graph, int ranks) {
    CAPTURE(graph.describe());
    CAPTURE(ranks);
    const int period = graph.period(ranks);
    if (period == 0 || ranks < 3) return;
    for (std::int64_t round = 0; round < 5; ++round)
      CHECK(matrix_of(graph, ranks, round) == matrix_of(graph, ranks, round + period));
    for (int k = 1; k < period; ++k)
      CHECK(matrix_of(graph, ranks, 0) != matrix_of(graph, ranks, k));
  });
}

TEST_CASE("graphs that look alike from every rank are the same seen from every rank") {
  with_graphs([](const auto& graph, int ranks) {
    using G = std::remove_cvref_t<decltype(graph)>;
    if constexpr (TranslationInvariant<G>) {
      CAPTURE(graph.describe());
      CAPTURE(ranks);
      const std::vector<int> sides = graph.sides(ranks);
      const auto minus = [&](int a, int b) {  // in the group, row-major
        int c = 0, stride = 1;
        for (std::size_t k = sides.size(); k-- > 0;) {
          c += (a % sides[k] - b % sides[k] + sides[k]) % sides[k] * stride;
          stride *= sides[k];
          a /= sides[k];
          b /= sides[k];
        }
        return static_cast<std::size_t>(c);
      };
      for (std::int64_t round = 0; round < 4; ++round) {
        const auto w = matrix_of(graph, ranks, round);
        for (int i = 0; i < ranks; ++i)
          for (int j = 0; j < ranks; ++j)
            CHECK(std::abs(w[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] -
                           w[0][minus(j, i)]) < 1e-15);
      }
    }
  });
}

TEST_CASE("sizes that a graph cannot serve are refused by a sentence that names others") {
  const auto says = [](const auto& graph, int ranks, const char* sentence) {
    const std::string said = complaint([&] { (void)graph.in(0, ranks, 0); });
    CAPTURE(said);
    CHECK(contains(said, sentence));
  };
  for (const int ranks : {3, 5, 6, 7, 9, 12, 15}) {
    says(hypercube{}, ranks, "hypercube: the number of ranks must be a power of two; cycle");
    says(xor_matching{}, ranks, "xor_matching: the number of ranks must be a power of two; odd");
    says(lazy{hypercube{}}, ranks, "hypercube: the number of ranks must be a power of two");
  }
  for (const int ranks : {3, 5, 7, 9, 15}) {
    says(odd_even{}, ranks, "odd_even: the number of ranks must be even; cycle");
    says(random_matching{}, ranks, "random_matching: the number of ranks must be even; cycle");
    says(torus{2}, ranks, "must be a multiple of the number of rows");
    says(grid{2}, ranks, "must be a multiple of the number of rows");
  }
  for (const int ranks : {2, 4, 8, 16}) {
    CHECK(complaint([&] { (void)hypercube{}.in(0, ranks, 0); }).empty());
    CHECK(complaint([&] { (void)odd_even{}.in(0, ranks, 0); }).empty());
    CHECK(complaint([&] { (void)grid{2}.in(0, ranks, 0); }).empty());
  }
  says(lazy{cycle{}, 1.5}, 4, "theta must be above 0 and at most 1");
  says(lazy{cycle{}, 0}, 4, "theta must be above 0 and at most 1");
}
