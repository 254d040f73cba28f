// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The test of graph_cache.cu on an emulated GPU.
#include <cmath>

#include <cordee/ops/engines/reference/gpu.hpp>

#include "tests/support/deferred.hpp"
#include "tests/train/replay_on.hpp"

using namespace support;

TEST_CASE("replay_on: after ten steps replay equals eager to the bit on an emulated GPU") {
  replays_alike<reference>(deferred{1});
}
TEST_CASE("replay_on: outcomes that differ in one bit of one weight are different") {
  const replay_outcome a{{1}, {2}, {3, 4}};
  replay_outcome b = a;
  CHECK(a == b);
  b.weights[1] = std::nextafter(4.0f, 5.0f);
  CHECK_FALSE(a == b);
}
