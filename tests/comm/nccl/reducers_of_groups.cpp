// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of reducers that work group by group, or by two methods, over the double of NCCL.
#include <doctest/doctest.h>

#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/double_tree.hpp>
#include <cordee/comm/hierarchical.hpp>
#include <cordee/comm/hybrid.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/torus_ring.hpp>

#include "tests/support/reducers_on_double.hpp"

using namespace cordee;
using support::law_breaches, support::wrong_on_device;

namespace {
constexpr std::size_t chunk = 1000, border = 2000;  // numbers, bytes: some messages on either side
}

TEST_CASE("nccl: reducers over nodes, a torus, two trees and two methods keep the laws") {
  CHECK(law_breaches([](nccl link) { return hierarchical{link, nodes{2}}; }) == "");
  CHECK(law_breaches([](nccl link) { return torus_ring{link}; }) == "");
  CHECK(law_breaches([](nccl link) { return double_tree{link, chunk}; }) == "");
  CHECK(law_breaches([](nccl link) { return hybrid{butterfly{link}, ring{link}, border}; }) == "");
}

TEST_CASE("nccl: reducers over nodes, a torus, two trees and two methods on a GPU's memory") {
  CHECK(wrong_on_device([](nccl link) { return hierarchical{link, nodes{2}}; }) == "");
  CHECK(wrong_on_device([](nccl link) { return torus_ring{link}; }) == "");
  CHECK(wrong_on_device([](nccl link) { return double_tree{link, chunk}; }) == "");
  CHECK(wrong_on_device([](nccl link) {
          return hybrid{butterfly{link}, ring{link}, border};
        }) == "");
}
