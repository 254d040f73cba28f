// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/native.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/on_double.hpp"

using namespace cordee;

TEST_CASE("nccl: a ring keeps the laws of reducers, and NCCL's own mean does") {
  const reducer_law_options here{.ranks = {1, 2, 3, 4}};
  CHECK(reducer_laws<nccl>([](auto link) { return ring{link}; }, here, support::launch_nccl) == "");
  CHECK(reducer_laws<nccl>([](auto link) { return native{link}; }, here, support::launch_nccl) ==
        "");
}
