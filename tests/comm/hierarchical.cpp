// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/hierarchical.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// Three ranks a node, the last has what is left; or every node another number: 1, 2, 3, ...
nodes uneven(int ranks) {
  nodes where;
  for (int left = ranks, size = 1; left > 0; left -= size, ++size)
    where.sizes.push_back(std::min(left, size));
  return where;
}

}  // namespace

TEST_CASE("hierarchical keeps the laws: a tree in each node, 2(g-1) messages a first rank") {
  CHECK(reducer_laws(
            [](auto link) {
              return hierarchical{link, link.size() % 2 == 0 ? nodes{3} : uneven(link.size())};
            },
            {.messages =
                 [](int rank, int p) {
                   const auto start = (p % 2 == 0 ? nodes{3} : uneven(p)).starts(p);
                   std::size_t node = 0;
                   while (start[node + 1] <= rank) ++node;
                   return tree_messages(rank - start[node], start[node + 1] - start[node]) +
                          (rank == start[node] ? 2 * (start.size() - 2) : 0);
                 },
             .numbers = [](int p, std::size_t n) { return 2 * n * whole(p - 1); }}) == "");
}

TEST_CASE("hierarchical: a sum goes by nodes, first inside") {
  // Beside 1e8 a float does not see a 3.
  const auto mean_over = [](nodes where) {
    return on_ranks(4, [&](threads link) {
      const float mine[] = {1e8f, -1e8f, 1, 3};
      float x = mine[link.rank()];
      std::array<std::byte, 4> scratch;
      hierarchical{link, where}.mix(
          message<float, cpu, 0>{nullptr, {&x, 1}, {}, {scratch.data(), scratch.size()}}, moment{},
          cpu::stream{});
      return x;
    })[3];
  };
  CHECK(mean_over(nodes{2}) == 1);
  CHECK(mean_over({.sizes = {1, 3}}) == 0);
}

TEST_CASE("hierarchical says what it is, and refuses nodes of another number of ranks") {
  on_ranks(5, [](threads link) {
    CHECK(hierarchical{link, nodes{2}}.describe() ==
          "trees inside 3 nodes, a ring across them, over 5 ranks: exact mean");
    CHECK_THROWS_AS((void)(hierarchical{link, nodes{.sizes = {2, 2}}}.describe()), misuse);
    return 0;
  });
}
