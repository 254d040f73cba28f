// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/clock.hpp>
#include <cordee/core/steady_time.hpp>

using namespace cordee::detail;

TEST_CASE("steady_nanoseconds: the clock is that of std::chrono") {
  const auto now = [] {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  const std::int64_t before = now(), at = core::steady_nanoseconds(), after = now();
  CHECK(before <= at);
  CHECK(at <= after);
}

TEST_CASE("timespec_of: seconds and the rest") {
  const timespec time = core::timespec_of(2'000'000'003);
  CHECK(time.tv_sec == 2);
  CHECK(time.tv_nsec == 3);
}
