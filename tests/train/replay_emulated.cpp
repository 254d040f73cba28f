// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The test of graph_cache.cu on an emulated GPU.
#include <cmath>

#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/optim/on_host.hpp>

#include "tests/support/deferred.hpp"
#include "tests/train/replay_on.hpp"

using namespace support;

TEST_CASE("replay_on: after ten steps replay equals eager to the bit on an emulated GPU") {
  replays_alike<reference>(deferred{1});
}
TEST_CASE("replay_on: outcomes that differ in one bit of one weight are different") {
  const replay_outcome a{{1}, {2}, {3, 4}, 0};
  replay_outcome b = a;
  CHECK(a == b);
  b.weights[1] = std::nextafter(4.0f, 5.0f);
  CHECK_FALSE(a == b);
}
TEST_CASE(
    "replay_on: a run with weights by block, replayed or not, has the bits of a resident one") {
  const replay_outcome resident = ten_steps<reference>(deferred{1}, false);
  for (const bool captures : {false, true}) {
    const deferred device{2};
    CHECK(ten_steps<reference, deferred, offloaded_network<deferred, reference>>(
              device, captures) == resident);
  }
}
TEST_CASE("replay_on: updates on the host of weights by block have the bits of resident weights") {
  const on_host placed{lars{.trust_coefficient = 0.01}, false, 1};
  const auto resident = ten_steps<reference, deferred, replay_network<deferred, reference>>(
      deferred{1}, false, placed);
  for (const std::uint64_t seed : {0U, 2U})
    CHECK(ten_steps<reference, deferred, offloaded_network<deferred, reference>>(
              deferred{seed}, false, placed) == resident);
}
