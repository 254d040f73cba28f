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

TEST_CASE("grid: Metropolis-Hastings weights on 2 x 3 ranks, and the weights of a list agree") {
  const auto w = matrix_of(grid{}, 6, 0);
  const std::vector<double> first{5.0 / 12, 0.25, 0, 1.0 / 3, 0, 0},
      second{0.25, 0.25, 0.25, 0, 0.25, 0};
  for (std::size_t j = 0; j < 6; ++j) {
    CHECK(std::abs(w[0][j] - first[j]) < 1e-15);
    CHECK(std::abs(w[1][j] - second[j]) < 1e-15);
  }
  const auto own = user_graph::metropolis({{1, 3}, {0, 2, 4}, {1, 5}, {0, 4}, {1, 3, 5}, {2, 4}});
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 6; ++j)
      CHECK(std::abs(matrix_of(own, 6, 0)[i][j] - w[i][j]) < 1e-15);
  CHECK(std::abs(spectral_gap(grid{}, 6) - 0.25) < 1e-12);  // the second eigenvalue is 3/4
  CHECK(std::abs(spectral_gap(own, 6) - 0.25) < 1e-12);
}

TEST_CASE("the symmetric exponential graph is the mean of the directed one and its reverse") {
  for (const int ranks : graph_sizes) {
    const matrix w = matrix_of(exponential{}, ranks, 0);
    const matrix both = matrix_of(symmetric_exponential{}, ranks, 0);
    for (std::size_t i = 0; i < w.size(); ++i)
      for (std::size_t j = 0; j < w.size(); ++j)
        CHECK(std::abs(both[i][j] - (w[i][j] + w[j][i]) / 2) < 1e-15);
  }
}

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

TEST_CASE("a graph of one's own that keeps no mean or never agrees is refused by a sentence") {
  const auto says = [](const auto& make, const char* sentence) {
    const std::string said = complaint(make);
    CAPTURE(said);
    CHECK(contains(said, sentence));
  };
  says(
      [] {
        user_graph::metropolis({{1}, {0}, {3}, {2}});
      },
      "no path leads from rank 0 to rank 2: they would never agree");
  says([] { user_graph::metropolis({{}, {}}); }, "no path leads");
  says([] { user_graph::metropolis({{1}, {}}); }, "rank 0 meets rank 1, which does not meet it");
  says([] { user_graph::metropolis({{1, 1}, {0}}); }, "rank 0 names rank 1 twice");
  says([] { user_graph::metropolis({{2}, {0}}); }, "rank 0 names rank 2");
  says([] { user_graph::metropolis({{0}}); }, "rank 0 names rank 0");
  says([] { user_graph::metropolis({}); }, "it has no ranks");
  // 1 / (degree + 1) on a path of three: rows sum to one, columns do not.
  const double third = 1.0 / 3;
  says(
      [&] {
        user_graph::weighted({{.5, .5, 0}, {third, third, third}, {0, .5, .5}});
      },
      "column 0 sums to 0.833333, so the ranks' mean would drift");
  says([] { user_graph::weighted({{0.5, 0.4}, {0.5, 0.6}}); }, "row 0 sums to 0.9");
  says([] { user_graph::weighted({{1, 0}, {0, 1}}); }, "no path leads from rank 0 to rank 1");
  says([] { user_graph::weighted({{1.5, -.5}, {-.5, 1.5}}); }, "the weight -0.5");
  says([] { user_graph::weighted({{1}, {0, 1}}); }, "weights for 2 ranks");
  says(
      [] {
        (void)user_graph::metropolis({{1}, {0}}).in(0, 3, 0);
      },
      "made for 2 ranks, and the run has 3");
}
