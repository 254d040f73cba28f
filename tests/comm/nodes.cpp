// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/nodes.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

using row = std::vector<int>;

TEST_CASE("nodes: so many ranks each, the last may have fewer; or each its own number") {
  CHECK(nodes{4}.starts(8) == row{0, 4, 8});
  CHECK(nodes{4}.starts(9) == row{0, 4, 8, 9});
  CHECK(nodes{4}.starts(3) == row{0, 3});
  CHECK(nodes{}.starts(3) == row{0, 1, 2, 3});
  CHECK(nodes{.sizes = {3, 1, 2}}.starts(6) == row{0, 3, 4, 6});
}

TEST_CASE("nodes: what cannot be is refused") {
  CHECK_THROWS_AS((void)nodes{0}.starts(3), misuse);
  CHECK_THROWS_AS((void)(nodes{.sizes = {2, 0, 1}}.starts(3)), misuse);
  CHECK_THROWS_AS((void)(nodes{.sizes = {2, 2}}.starts(3)), misuse);
  CHECK_THROWS_AS((void)(nodes{.sizes = {2, 2}}.starts(5)), misuse);
  CHECK(complaint([] {
          (void)(nodes{.sizes = {2, 2}}.starts(5));
        }) == "nodes: the sizes add up to 4 ranks, not to 5");
}

TEST_CASE("nodes: neighbours on one machine are a node, and others on it are an error with names") {
  CHECK(detail::nodes_from({7, 7, 5, 1, 1, 1}).sizes == row{2, 1, 3});
  const std::string said = complaint([] { (void)detail::nodes_from({7, 5, 7}); });
  CHECK(contains(said, "ranks 0 and 2 share a machine, and rank 1 does not"));
  CHECK(detail::number_called("node1") != detail::number_called("node2"));
  CHECK(detail::number_called("node1") == detail::number_called("node1"));
}

TEST_CASE("nodes: threads share their process's machine") {
  for (const auto& where : on_ranks(3, [](threads link) { return nodes_of(link).sizes; }))
    CHECK(where == row{3});
}
