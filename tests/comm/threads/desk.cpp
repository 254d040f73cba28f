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

TEST_CASE("desk: the first is the one with the lowest turn, whoever's mailbox it lies in") {
  desk d(3);
  CHECK(d.first() == -1);
  const std::byte word{7};
  for (const std::size_t sender : {2u, 0u, 2u, 1u}) d.from[sender].lay_copy(&word, 1, d.turns++);
  for (const int sender : {2, 0, 2, 1}) {
    CHECK(d.first() == sender);
    d.from[static_cast<std::size_t>(sender)].drop();
  }
  CHECK(d.first() == -1);
}
