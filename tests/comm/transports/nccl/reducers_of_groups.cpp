// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of reducers with subgroups, or of two methods, over the test double of NCCL.
#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>

#include "tests/support/nccl_double_reducers.hpp"

using namespace cordee;
using support::reducer_violations, support::wrong_on_device;

namespace {
constexpr std::size_t chunk = 1000,
                      border = 2000;  // elements, bytes: messages on either side of each
}

TEST_CASE("nccl: hierarchical, torus, double tree and hybrid reducers keep the laws of reducers") {
  CHECK(reducer_violations([](nccl comm) { return hierarchical{comm, nodes{2}}; }) == "");
  CHECK(reducer_violations([](nccl comm) { return torus_ring{comm}; }) == "");
  CHECK(reducer_violations([](nccl comm) { return double_tree{comm, chunk}; }) == "");
  CHECK(reducer_violations([](nccl comm) {
          return hybrid{butterfly{comm}, ring{comm}, border};
        }) == "");
}

TEST_CASE(
    "nccl: hierarchical, torus, double tree and hybrid reducers compute the mean in GPU memory") {
  CHECK(wrong_on_device([](nccl comm) { return hierarchical{comm, nodes{2}}; }) == "");
  CHECK(wrong_on_device([](nccl comm) { return torus_ring{comm}; }) == "");
  CHECK(wrong_on_device([](nccl comm) { return double_tree{comm, chunk}; }) == "");
  CHECK(wrong_on_device([](nccl comm) {
          return hybrid{butterfly{comm}, ring{comm}, border};
        }) == "");
}
