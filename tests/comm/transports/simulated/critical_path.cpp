// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/critical_path.hpp>

using namespace cordee;
using namespace cordee::detail::comm;

TEST_CASE("critical path: a message takes latency and bytes / bandwidth, the later path counts") {
  const link_parameters link{.latency = 0.25, .bandwidth = 8};
  const critical_path one = after_message({}, 4, link), two = after_message(one, 2, link);
  CHECK(one.seconds == 0.75);
  CHECK(two.seconds == 1.25);
  CHECK(two.messages == 2);
  CHECK(two.bytes == 6);
  CHECK(later(one, two).messages == 2);
  CHECK(later(two, one).messages == 2);
  const critical_path longer{.seconds = 1.25, .messages = 9};
  CHECK(later(longer, two).messages == 9);  // the first of two that end at once
}

TEST_CASE("ideal network: consecutive ranks share a node") {
  const ideal_network network{.link = {1, 2}, .inside = {3, 4}, .ranks_per_node = 4};
  CHECK(network.between(4, 7).latency == 3);
  CHECK(network.between(3, 4).latency == 1);
  CHECK(network.between(3, 3).latency == 0);
  CHECK(ideal_network{.link = {1, 2}}.between(0, 1).latency == 1);
}
