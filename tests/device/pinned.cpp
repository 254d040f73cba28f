// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/device/pinned.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using support::emulated;

static_assert(Pins<emulated> && !Pins<cpu>, "the CPU's memory is the host's: nothing is pinned");

TEST_CASE("pinned: room for so many numbers, that moves and grows") {
  pinned<int, emulated> room(emulated{}, 3);
  CHECK(room.span().size() == 3);
  std::iota(room.span().begin(), room.span().end(), 5);
  const int* const at = room.span().data();
  room.reserve(2);
  CHECK(room.span().data() == at);
  pinned<int, emulated> other = std::move(room);
  CHECK(other.span().data() == at);
  CHECK(other.span()[2] == 7);
  CHECK(room.span().empty());
  other.reserve(4);
  CHECK(other.span().size() == 4);
}
