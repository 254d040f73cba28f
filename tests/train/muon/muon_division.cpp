// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The exchange: muon.cpp.
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/muon/muon_division.hpp>

using namespace cordee;
using namespace cordee::detail;

TEST_CASE("muon_division: matrices alone have owners, with about the same work") {
  std::vector<segment> table;
  for (int k = 0; k < 20; ++k) {
    const int rows = 8 << k % 4, columns = 64 << k % 3;
    const auto n = static_cast<std::size_t>(rows * columns);
    table.push_back({"w", kind::weight, 0, n, {rows, columns / 4, 2, 2}});
    table.push_back({"b", kind::bias, 0, n, {rows, 0, 0, 0}});
  }
  const auto is_matrix = [](const segment& s) { return s.kind == kind::weight; };
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    const auto owners = train::divide_matrices(table, ranks, is_matrix);
    std::vector<double> work(static_cast<std::size_t>(ranks));
    double largest = 0;
    for (std::size_t k = 0; k < table.size(); ++k) {
      CHECK((owners[k] >= 0) == is_matrix(table[k]));
      CHECK(owners[k] < ranks);
      if (owners[k] < 0) continue;
      const train::matrix_sides sides(table[k]);
      CHECK(sides.rows * sides.columns == table[k].size);
      const double cost = optim::newton_schulz<float>::cost(sides.rows, sides.columns);
      work[static_cast<std::size_t>(owners[k])] += cost;
      largest = std::max(largest, cost);
    }
    const double mean = std::accumulate(work.begin(), work.end(), 0.0) / ranks;
    CHECK(*std::max_element(work.begin(), work.end()) <= mean + largest);
  }
}
