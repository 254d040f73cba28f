// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/double_tree.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using detail::bough;

namespace {

// The second tree's number of a rank.
int mirrored(int rank, int p) { return p % 2 == 0 ? p - 1 - rank : (rank + p - 1) % p; }

std::size_t neighbours(int number, int p) {
  if (p == 1) return 0;
  const bough b = bough::of(number, p);
  return whole((b.parent != nobody) + (b.child[0] != nobody) + (b.child[1] != nobody));
}

}  // namespace

TEST_CASE("double_tree: eight ranks stand as NCCL puts them") {
  const int parents[] = {nobody, 2, 4, 2, 0, 6, 4, 6}, second[] = {1, 3, 1, 7, 5, 3, 5, nobody};
  for (int r = 0; r < 8; ++r) {
    CHECK(bough::of(r, 8).parent == parents[r]);
    const int up = bough::of(mirrored(r, 8), 8).parent;
    CHECK((up == nobody ? nobody : 7 - up) == second[r]);
  }
}

TEST_CASE("double_tree: parents and children agree, levels climb, few are inside both trees") {
  for (int p = 2; p <= 33; ++p) {
    CAPTURE(p);
    int both = 0, edges = 0;
    for (int r = 0; r < p; ++r) {
      const bough b = bough::of(r, p);
      CHECK((b.parent == nobody) == (r == 0));
      CHECK(b.level <= bough::levels(p));
      for (const int child : b.child) {
        if (child == nobody) continue;
        ++edges;
        REQUIRE(child < p);
        CHECK(bough::of(child, p).parent == r);
        CHECK(bough::of(child, p).level < b.level);
      }
      if (b.child[0] != nobody && bough::of(mirrored(r, p), p).child[0] != nobody) ++both;
    }
    CHECK(edges == p - 1);
    CHECK(both == p % 2);
  }
}

TEST_CASE("double_tree keeps the laws: a message each way over all edges of two trees") {
  const auto in_chunks_of = [](std::size_t chunk) {
    return [chunk](auto link) { return double_tree{link, chunk}; };
  };
  const auto numbers = [](int p, std::size_t n) { return 2 * n * whole(p - 1); };
  const auto messages = [](int r, int p) {
    return neighbours(r, p) + neighbours(mirrored(r, p), p);
  };
  CHECK(reducer_laws(in_chunks_of(5000), {.messages = messages, .numbers = numbers}) == "");
  CHECK(reducer_laws(in_chunks_of(100), {.ranks = {2, 3, 6, 9}, .numbers = numbers}) == "");
}

TEST_CASE("double_tree says what it is, and refuses chunks of nothing") {
  on_ranks(3, [](threads link) {
    CHECK(double_tree{link}.describe() == "two trees over 3 ranks: exact mean");
    CHECK_THROWS_AS((void)(double_tree{link, 0}.scratch<float>(10)), misuse);
    return 0;
  });
}
