// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// Nodes of 1, 2, 3, ... ranks; the last has the remaining ones.
nodes uneven(int ranks) {
  nodes layout;
  for (int left = ranks, size = 1; left > 0; left -= size, ++size)
    layout.sizes.push_back(std::min(left, size));
  return layout;
}

}  // namespace

TEST_CASE(
    "hierarchical keeps the laws of an exact reducer: a tree in each node, 2(g-1) messages a first "
    "rank") {
  CHECK(reducer_laws(
            [](auto comm) {
              return hierarchical{comm, comm.size() % 2 == 0 ? nodes{3} : uneven(comm.size())};
            },
            {.messages =
                 [](int rank, int p) {
                   const auto start = (p % 2 == 0 ? nodes{3} : uneven(p)).starts(p);
                   std::size_t node = 0;
                   while (start[node + 1] <= rank) ++node;
                   return tree_messages(rank - start[node], start[node + 1] - start[node]) +
                          (rank == start[node] ? 2 * (start.size() - 2) : 0);
                 },
             .numbers = [](int p, std::size_t n) { return 2 * n * to_size(p - 1); }}) == "");
}

TEST_CASE("hierarchical adds inside nodes first, then across them") {
  // In float, 1e8 + 3 is 1e8.
  const auto mean_over = [](nodes layout) {
    return on_ranks(4, [&](threads comm) {
      const float values[] = {1e8f, -1e8f, 1, 3};
      float x = values[comm.rank()];
      std::array<std::byte, 4> scratch;
      hierarchical{comm, layout}.mix(
          bucket_view<float, cpu, 0>{nullptr, {&x, 1}, {}, {scratch.data(), scratch.size()}},
          step_info{}, cpu::stream{});
      return x;
    })[3];
  };
  CHECK(mean_over(nodes{2}) == 1);
  CHECK(mean_over({.sizes = {1, 3}}) == 0);
}

TEST_CASE("hierarchical describes itself, and refuses nodes of another number of ranks") {
  on_ranks(5, [](threads comm) {
    CHECK(hierarchical{comm, nodes{2}}.describe() ==
          "trees inside 3 nodes, a ring across them, over 5 ranks: exact mean");
    CHECK_THROWS_AS((void)(hierarchical{comm, nodes{.sizes = {2, 2}}}.describe()), usage_error);
    return 0;
  });
}
