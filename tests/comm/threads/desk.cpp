// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/threads/desk.hpp>

using namespace cordee::detail;

TEST_CASE("desk: a mailbox for each sender, and they do not mix") {
  desk d(3);
  REQUIRE(d.from.size() == 3);
  const std::byte word{7};
  d.from[1].lay_copy(&word, 1);
  CHECK(d.from[0].next() == nullptr);
  CHECK(d.from[1].next() != nullptr);
  CHECK(d.from[2].next() == nullptr);
}
