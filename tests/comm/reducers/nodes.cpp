// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/nodes.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

using sizes_of_nodes = std::vector<int>;

TEST_CASE("nodes: equal sizes but for the last node, or given sizes") {
  CHECK(nodes{4}.starts(8) == sizes_of_nodes{0, 4, 8});
  CHECK(nodes{4}.starts(9) == sizes_of_nodes{0, 4, 8, 9});
  CHECK(nodes{4}.starts(3) == sizes_of_nodes{0, 3});
  CHECK(nodes{}.starts(3) == sizes_of_nodes{0, 1, 2, 3});
  CHECK(nodes{.sizes = {3, 1, 2}}.starts(6) == sizes_of_nodes{0, 3, 4, 6});
}

TEST_CASE("nodes: sizes that do not fit the ranks are usage errors") {
  CHECK_THROWS_AS((void)nodes{0}.starts(3), usage_error);
  CHECK_THROWS_AS((void)(nodes{.sizes = {2, 0, 1}}.starts(3)), usage_error);
  CHECK_THROWS_AS((void)(nodes{.sizes = {2, 2}}.starts(3)), usage_error);
  CHECK_THROWS_AS((void)(nodes{.sizes = {2, 2}}.starts(5)), usage_error);
  CHECK(error_message([] {
          (void)(nodes{.sizes = {2, 2}}.starts(5));
        }) == "nodes: the sizes add up to 4 ranks, not to 5");
}

TEST_CASE(
    "nodes: consecutive ranks on one host are a node, others on it are an error that names them") {
  CHECK(detail::comm::nodes_from_hosts({7, 7, 5, 1, 1, 1}).sizes == sizes_of_nodes{2, 1, 3});
  const std::string message = error_message([] {
    (void)detail::comm::nodes_from_hosts({7, 5, 7});
  });
  CHECK(contains(message, "ranks 0 and 2 share a host, and rank 1 does not"));
  CHECK(detail::comm::host_hash("node1") != detail::comm::host_hash("node2"));
  CHECK(detail::comm::host_hash("node1") == detail::comm::host_hash("node1"));
}

TEST_CASE("nodes::by_host: threads of a process are one node") {
  for (const auto& sizes : on_ranks(3, [](threads comm) { return nodes::by_host(comm).sizes; }))
    CHECK(sizes == sizes_of_nodes{3});
}
