// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/solo.hpp>
#include <cordee/testing/words.hpp>

using namespace cordee;
using namespace cordee::detail;

TEST_CASE("words are equal by their bits, and are heard as they were told") {
  CHECK(equal(thirds(2, 5), thirds(2, 5)));
  CHECK_FALSE(equal(thirds(2, 5), thirds(3, 5)));
  CHECK_FALSE(equal(thirds(2, 5), thirds(2, 4)));
  CHECK_FALSE(equal(word{0.0f}, word{-0.0f}));
  word heard(5);
  exchange(alone{}, {tell(0, thirds(2, 5))}, {hear(0, heard)});
  CHECK(equal(heard, thirds(2, 5)));
}
