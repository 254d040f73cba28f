// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Rounds on the critical path of each method, as in the cost models of its header.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/adasum.hpp>
#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/majority_vote.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/testing/counting_communicator.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Of one mean of a thousand numbers over so many ranks.
template <class Make>
std::size_t rounds_of(int ranks, const Make& make) {
  std::size_t most = 0;
  for (const traffic& t : on_ranks(ranks, [&](threads comm) {
         traffic sent;
         const auto reducer = make(counting_communicator{comm, &sent});
         constexpr int slots = std::remove_cvref_t<decltype(reducer)>::slots;
         std::vector<float> x(1000), e(1000);
         std::vector<std::byte> scratch(reducer.template scratch<float>(1000));
         bucket_view<float, cpu, slots> m{
             nullptr, {x.data(), 1000}, {}, {scratch.data(), scratch.size()}};
         if constexpr (slots > 0) m.slots[0] = {e.data(), 1000};
         reducer.mix(m, step_info{}, cpu::stream{});
         return sent;
       }))
    most = std::max(most, t.rounds);
  return most;
}

std::size_t ceil_log2(std::size_t n) { return static_cast<std::size_t>(std::bit_width(n - 1)); }

}  // namespace

TEST_CASE("rounds: of every method on 1, 2, 3, 5, 8 and 16 ranks") {
  for (const int ranks : {1, 2, 3, 5, 8, 16}) {
    CAPTURE(ranks);
    const auto p = static_cast<std::size_t>(ranks);
    const std::size_t log_above = ceil_log2(p),
                      log_below = static_cast<std::size_t>(std::bit_width(p)) - 1;
    const std::size_t pairs = std::has_single_bit(p) ? 0 : 2;
    CHECK(rounds_of(ranks, [](auto comm) { return ring{comm}; }) == 2 * (p - 1));
    CHECK(rounds_of(ranks, [](auto comm) { return tree{comm}; }) == 2 * log_above);
    CHECK(rounds_of(ranks, [](auto comm) { return butterfly{comm}; }) == log_below + pairs);
    CHECK(rounds_of(ranks, [](auto comm) { return adasum{comm}; }) == log_below + pairs);
    CHECK(rounds_of(ranks, [](auto comm) { return halving_doubling{comm}; }) ==
          2 * log_below + pairs);
    CHECK(rounds_of(ranks, [](auto comm) { return one_shot{comm}; }) ==
          std::min<std::size_t>(p - 1, 1));
    CHECK(rounds_of(ranks, [](auto comm) { return two_shot{comm}; }) ==
          2 * std::min<std::size_t>(p - 1, 1));
    CHECK(rounds_of(ranks, [](auto comm) { return majority_vote{comm}; }) ==
          2 * std::min<std::size_t>(p - 1, 1));
    CHECK(rounds_of(ranks, [](auto comm) {
            return gathered{comm, scaled_sign{}};
          }) == std::min<std::size_t>(p - 1, 1));
  }
}

TEST_CASE("rounds: trees inside nodes of 1, 2 and 4 ranks, a ring across them") {
  for (const std::size_t p : {1u, 2u, 3u, 5u, 8u, 16u})
    for (const std::size_t k : {1u, 2u, 4u}) {
      CAPTURE(p);
      CAPTURE(k);
      const std::size_t nodes_of_k = (p + k - 1) / k;
      CHECK(rounds_of(static_cast<int>(p), [&](auto comm) {
              return hierarchical{comm, nodes{static_cast<int>(k)}};
            }) == 2 * ceil_log2(std::min(k, p)) + 2 * (nodes_of_k - 1));
    }
}

TEST_CASE("rounds: rings along the columns and the rows of a torus") {
  for (const std::size_t p : {1u, 2u, 3u, 5u, 6u, 8u, 12u, 16u})
    for (const std::size_t rows : {1u, 2u, 3u, 4u}) {
      if (p % rows != 0) continue;
      CAPTURE(p);
      CAPTURE(rows);
      CHECK(rounds_of(static_cast<int>(p), [&](auto comm) {
              return torus_ring{comm, static_cast<int>(rows)};
            }) == 2 * (p / rows - 1) + 2 * (rows - 1));
    }
}

// A tree of L levels takes two rounds a level up and two down, since a node has its children one
// after the other, but one at the root, which has one child: 4 L - 2. What the ranks do in the
// other tree adds up to three.
TEST_CASE("rounds: two trees of a single chunk each") {
  const auto of_trees = [](std::size_t p) {
    return rounds_of(static_cast<int>(p), [](auto comm) { return double_tree{comm}; });
  };
  CHECK(of_trees(1) == 0);
  for (std::size_t p = 2; p < 18; ++p) {
    CAPTURE(p);
    CHECK(of_trees(p) >= 4 * ceil_log2(p) - 2);
    CHECK(of_trees(p) <= 4 * ceil_log2(p) + 1);
  }
  for (const std::size_t p : {4u, 8u, 16u}) CHECK(of_trees(p) == 4 * ceil_log2(p) + 1);
}
