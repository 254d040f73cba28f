// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/machine.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

machine read(const std::string& text) {
  std::istringstream in(text);
  return read_machine(in);
}

/// Every route ends within the links, and crosses none twice.
template <class M>
void check_routes(const M& m, int ranks, std::size_t longest) {
  const auto links = m.links(ranks).size();
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < ranks; ++b) {
      if (a == b) continue;
      CAPTURE(a);
      CAPTURE(b);
      std::vector<int> path;
      m.route(a, b, ranks, path);
      CHECK(!path.empty());
      CHECK(path.size() <= longest);
      for (std::size_t i = 0; i < path.size(); ++i) {
        CHECK(static_cast<std::size_t>(path[i]) < links);
        for (std::size_t k = 0; k < i; ++k) CHECK(path[i] != path[k]);
      }
    }
}

}  // namespace

TEST_CASE("machine: files of the three kinds") {
  const auto tree = std::get<fat_tree>(
      read("# a comment\nfat_tree\n gpu 1e-6 450e9\nnode 2e-6 50e9 # InfiniBand\nrack 3e-6 8e11\n\n"
           "gpus_per_node 4\nnodes_per_rack 2\n"));
  CHECK(tree.node.latency == 2e-6);
  CHECK(tree.rack.bandwidth == 8e11);
  CHECK(tree.gpus_per_node == 4);
  const auto grid = std::get<torus>(read("torus\nlink 1e-6 7e10\ndimensions 4 2 8"));
  CHECK(grid.dimensions == std::array{4, 2, 8});
  const auto fly = std::get<dragonfly>(
      read("dragonfly\ngpu 0 1\nlocal 0 2\nglobal 0 3\ngpus_per_router 2\nrouters_per_group 4"));
  CHECK(fly.global.bandwidth == 3);
}

TEST_CASE("machine: routes stay within the machine") {
  check_routes(fat_tree{{}, {}, {}, 2, 2}, 11, 6);
  check_routes(torus{{}, {3, 4, 1}}, 12, 3);
  check_routes(torus{{}, {2, 2, 3}}, 12, 3);
  for (const int ranks : {1, 2, 7, 9, 12}) check_routes(torus{{}, {3, 2, 4}}, ranks, 5);
  check_routes(dragonfly{{}, {}, {}, 2, 2}, 12, 5);
}

TEST_CASE("machine: sizes and speeds outside their ranges are refused by name") {
  const auto thrown = [](const auto& machine) {
    return error_message([&] { (void)machine.links(12); });
  };
  CHECK(contains(thrown(fat_tree{.gpus_per_node = 0}),
                 "fat_tree: .gpus_per_node is 0, but must be 1 or more"));
  CHECK(contains(thrown(fat_tree{.nodes_per_rack = -1}), "fat_tree: .nodes_per_rack is -1"));
  CHECK(contains(thrown(fat_tree{.gpus_per_node = 1 << 20, .nodes_per_rack = 1 << 20}),
                 "make more than 2^31 - 1"));
  CHECK(contains(thrown(torus{.dimensions = {4, 0, 1}}), "torus: .dimensions[1] is 0"));
  CHECK(contains(thrown(torus{.dimensions = {4, 1, -2}}), "torus: .dimensions[2] is -2"));
  CHECK(contains(thrown(torus{.dimensions = {4, 1 << 16, 1 << 16}}), "make more than 2^31 - 1"));
  CHECK(contains(thrown(dragonfly{.gpus_per_router = 0}), "dragonfly: .gpus_per_router is 0"));
  CHECK(contains(thrown(dragonfly{.routers_per_group = 0}), "dragonfly: .routers_per_group is 0"));
  CHECK(contains(thrown(dragonfly{.routers_per_group = 1 << 16}), "make more than 2^31 - 1"));
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {-1.0, infinity, infinity - infinity}) {
    CHECK(contains(thrown(fat_tree{.rack = {bad, 1}}), "fat_tree: .rack.latency is "));
    CHECK(contains(thrown(torus{.link = {0, bad}}), "torus: .link.bandwidth is "));
    CHECK(contains(thrown(dragonfly{.global = {0, bad}}), "dragonfly: .global.bandwidth is "));
  }
  CHECK(thrown(torus{.dimensions = {0, 1, 1}}) == "");  // which is not read
}
