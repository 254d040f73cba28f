// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/turns.hpp>

using namespace cordee::detail::comm;

TEST_CASE("turns: the earliest is next, of one time the fiber of the lowest number") {
  turns waiting;
  CHECK(waiting.next_time() == std::numeric_limits<double>::infinity());
  waiting.add(3, 7);
  waiting.add(2, 9);
  waiting.add(2, 8);
  CHECK(waiting.next_time() == 2);
  CHECK(waiting.take() == 8);
  CHECK(waiting.take() == 9);
  CHECK(waiting.next_time() == 3);
  CHECK(waiting.take() == 7);
  CHECK(waiting.empty());
}
