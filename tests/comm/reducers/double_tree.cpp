// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using detail::comm::tree_node;

namespace {

// A rank's index in the second tree.
int second_index(int rank, int p) { return p % 2 == 0 ? p - 1 - rank : (rank + p - 1) % p; }

std::size_t edges_of(int index, int p) {
  if (p == 1) return 0;
  const tree_node node = tree_node::of(index, p);
  return to_size((node.parent != no_peer) + (node.child[0] != no_peer) +
                 (node.child[1] != no_peer));
}

}  // namespace

TEST_CASE("double_tree: the trees of eight ranks are NCCL's") {
  const int parents[] = {no_peer, 2, 4, 2, 0, 6, 4, 6}, second[] = {1, 3, 1, 7, 5, 3, 5, no_peer};
  for (int r = 0; r < 8; ++r) {
    CHECK(tree_node::of(r, 8).parent == parents[r]);
    const int up = tree_node::of(second_index(r, 8), 8).parent;
    CHECK((up == no_peer ? no_peer : 7 - up) == second[r]);
  }
}

TEST_CASE(
    "double_tree: parents and children agree, levels rise to the root, at most one rank is inside "
    "both trees") {
  for (int p = 2; p <= 33; ++p) {
    CAPTURE(p);
    int both = 0, edges = 0;
    for (int r = 0; r < p; ++r) {
      const tree_node node = tree_node::of(r, p);
      CHECK((node.parent == no_peer) == (r == 0));
      CHECK(node.level <= tree_node::root_level(p));
      for (const int child : node.child) {
        if (child == no_peer) continue;
        ++edges;
        REQUIRE(child < p);
        CHECK(tree_node::of(child, p).parent == r);
        CHECK(tree_node::of(child, p).level < node.level);
      }
      if (node.child[0] != no_peer && tree_node::of(second_index(r, p), p).child[0] != no_peer)
        ++both;
    }
    CHECK(edges == p - 1);
    CHECK(both == p % 2);
  }
}

TEST_CASE(
    "double_tree keeps the laws of an exact reducer: a message each way over all edges of two "
    "trees") {
  const auto with_chunks_of = [](std::size_t chunk) {
    return [chunk](auto comm) { return double_tree{comm, chunk}; };
  };
  const auto numbers = [](int p, std::size_t n) { return 2 * n * to_size(p - 1); };
  const auto messages = [](int r, int p) {
    return edges_of(r, p) + edges_of(second_index(r, p), p);
  };
  CHECK(reducer_laws(with_chunks_of(5000), {.messages = messages, .numbers = numbers}) == "");
  CHECK(reducer_laws(with_chunks_of(100), {.ranks = {2, 3, 6, 9}, .numbers = numbers}) == "");
}

TEST_CASE("double_tree describes itself, and refuses empty chunks") {
  on_ranks(3, [](threads comm) {
    CHECK(double_tree{comm}.describe() == "two trees over 3 ranks: exact mean");
    CHECK_THROWS_AS((void)(double_tree{comm, 0}.scratch<float>(10)), usage_error);
    return 0;
  });
}
