// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Cases computed by hand. Links of 8 bytes a second, without latency unless said.
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/contention.hpp>

using namespace cordee;
using namespace cordee::detail::comm;

namespace {

struct sent {
  int from, to;
  std::uint64_t bytes;
  double at = 0;
};

/// When each message arrives.
std::vector<double> arrivals(const machine& m, int ranks, const std::vector<sent>& messages) {
  contention network(m, ranks);
  for (const sent& s : messages) network.start(s.from, s.to, s.bytes, s.at);
  std::vector<double> times(messages.size(), -1);
  while (network.advance([&](std::size_t id, double time) { times[id] = time; })) {
  }
  return times;
}

/// Two GPUs a node, two nodes a rack.
fat_tree tree(double gpu, double node, double rack, double latency = 0) {
  return {{latency, gpu}, {latency, node}, {latency, rack}, 2, 2};
}

}  // namespace

TEST_CASE("contention: a message alone has the slowest of its links, after all their latencies") {
  CHECK(arrivals(tree(8, 4, 2), 8, {{0, 1, 16}}) == std::vector{2.0});
  CHECK(arrivals(tree(8, 4, 2), 8, {{0, 2, 16}}) == std::vector{4.0});
  CHECK(arrivals(tree(8, 4, 2), 8, {{0, 4, 16}}) == std::vector{8.0});
  CHECK(arrivals(tree(8, 4, 2, 0.5), 8, {{0, 1, 16}}) == std::vector{3.0});
  CHECK(arrivals(tree(8, 4, 2, 0.5), 8, {{0, 4, 16}}) == std::vector{11.0});
  CHECK(arrivals(tree(8, 4, 2, 0.5), 8, {{3, 3, 16, 1.5}}) == std::vector{1.5});
  CHECK(arrivals(tree(8, 4, 2, 0.5), 8, {{0, 1, 0}}) == std::vector{1.0});
}

TEST_CASE("contention: messages share a link equally, and one that ends leaves its share") {
  // Both at 4 to time 4, when the short one ends; then 8 more bytes at 8.
  CHECK(arrivals(tree(8, 8, 8), 8, {{0, 2, 16}, {1, 3, 24}}) == std::vector{4.0, 5.0});
  // Alone to time 1 (8 bytes), then each at 4: the first has 8 left, to 3; the second 8, to 4.
  CHECK(arrivals(tree(8, 8, 8), 8, {{0, 2, 16}, {1, 3, 16, 1}}) == std::vector{3.0, 4.0});
  // Ways up and down are different links.
  CHECK(arrivals(tree(8, 8, 8), 8, {{0, 2, 16}, {2, 0, 16}}) == std::vector{2.0, 2.0});
  // Three into one GPU.
  CHECK(arrivals(tree(8, 80, 80), 8, {{1, 0, 8}, {2, 0, 8}, {4, 0, 8}}) ==
        std::vector{3.0, 3.0, 3.0});
}

TEST_CASE("contention: shares are equal even where a message cannot use its own") {
  // 0 -> 2 has a quarter of GPU 2's port; 0 -> 1 has half of GPU 0's port, though 6 of 8 are free.
  CHECK(arrivals(tree(8, 80, 80), 8, {{0, 1, 16}, {0, 2, 8}, {3, 2, 8}, {4, 2, 8}, {5, 2, 8}}) ==
        std::vector{4.0, 4.0, 4.0, 4.0, 4.0});
}

TEST_CASE("contention: a torus takes the shorter way round") {
  const torus ring{{1, 8}, {6, 1, 1}};
  CHECK(arrivals(ring, 6, {{0, 2, 8}}) == std::vector{3.0});
  CHECK(arrivals(ring, 6, {{0, 5, 8}}) == std::vector{2.0});
  CHECK(arrivals(ring, 6, {{1, 4, 8}}) == std::vector{4.0});
  const torus grid{{0, 8}, {3, 4, 1}};
  CHECK(arrivals(grid, 12, {{0, 5, 8}, {1, 2, 8}}) == std::vector{1.0, 1.0});  // 0-1-5, 1-2
  CHECK(arrivals(grid, 12, {{0, 2, 8}, {1, 2, 8}}) == std::vector{2.0, 2.0});  // 0-1-2, 1-2
  CHECK(arrivals(grid, 12, {{0, 8, 8}, {4, 0, 8}, {0, 4, 8}}) ==
        std::vector{1.0, 1.0, 1.0});  // 0-8 backwards
}

TEST_CASE("contention: a dragonfly goes by the gateways of its groups") {
  const dragonfly fly{{0, 80}, {0, 16}, {0, 8}, 1, 2};  // routers 0 1 | 2 3 | 4 5
  CHECK(arrivals(fly, 6, {{0, 1, 16}}) == std::vector{1.0});
  CHECK(arrivals(fly, 6, {{0, 2, 16}}) == std::vector{2.0});
  CHECK(arrivals(fly, 6, {{0, 2, 16}, {1, 3, 16}}) == std::vector{4.0, 4.0});  // one global link
  CHECK(arrivals(fly, 6, {{0, 2, 16}, {1, 4, 16}}) == std::vector{2.0, 2.0});
  // 0 -> 3 arrives at router 2, group 1's gateway to group 0, and shares its link to router 3.
  const dragonfly slow{{0, 80}, {0, 4}, {0, 80}, 1, 2};
  CHECK(arrivals(slow, 6, {{0, 3, 16}}) == std::vector{4.0});
  CHECK(arrivals(slow, 6, {{0, 3, 16}, {2, 3, 16}}) == std::vector{8.0, 8.0});
}
