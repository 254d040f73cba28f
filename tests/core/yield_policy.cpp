// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/yield_policy.hpp>

using namespace cordee;
using detail::core::yield_policy;

TEST_CASE("yield_policy: a slow yield is followed by waits that block, then it is tried again") {
  for (const int waits : {1, 2, 10'000}) {
    yield_policy policy(waits);
    for (int k = 0; k < 3; ++k) {
      CHECK(policy.yields());
      policy.note(400'000);
    }
    CHECK(policy.yields());
    policy.note(4'000'000);
    int blocked = 0;
    while (!policy.yields()) ++blocked;
    CHECK(blocked == waits - 1);
    CHECK(policy.yields());
  }
}

TEST_CASE("yield_policy: yield() does nothing where the wait should block") {
  yield_policy policy(3);
  policy.note(4'000'000);
  CHECK_FALSE(policy.yield());
  CHECK_FALSE(policy.yield());
  CHECK(policy.yield());
}
