// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Of fixed points in time.
#include <doctest/doctest.h>

#include <cordee/comm/failure/wait_timer.hpp>

using namespace std::chrono_literals;
using cordee::detail::comm::wait_timer;

namespace {
constexpr wait_timer::clock::time_point start{5h};
}  // namespace

TEST_CASE("wait_timer: a restart resets the elapsed time, but not the interval of inspections") {
  wait_timer timer(start, 100ms, 1s);
  CHECK(timer.elapsed(start + 30ms) == 30ms);
  timer.restart(start + 80ms);
  CHECK(timer.elapsed(start + 90ms) == 10ms);
  CHECK_FALSE(timer.inspection_due(start + 100ms));
  CHECK(timer.inspection_due(start + 101ms));
  CHECK_FALSE(timer.inspection_due(start + 201ms));
  CHECK(timer.inspection_due(start + 202ms));
}

TEST_CASE("wait_timer: a peer has left for good one grace after it was first seen to have left") {
  wait_timer timer(start, 100ms, 1s);
  CHECK_FALSE(timer.left_for_good(-1, start + 5s));
  CHECK_FALSE(timer.left_for_good(2, start + 6s));
  CHECK_FALSE(timer.left_for_good(2, start + 7s));
  CHECK(timer.left_for_good(2, start + 7s + 1ms));
  CHECK_FALSE(timer.left_for_good(-1, start + 8s));  // its message has arrived
  CHECK_FALSE(timer.left_for_good(1, start + 9s));
  CHECK(timer.left_for_good(1, start + 10s + 1ms));
  CHECK_FALSE(timer.left_for_good(2, start + 10s + 2ms));  // each peer has a grace of its own
  CHECK(timer.left_for_good(2, start + 11s + 3ms));
}
