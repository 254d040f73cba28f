// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/device/pinned.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using support::emulated;

static_assert(PinnedAllocator<emulated> && !PinnedAllocator<cpu>,
              "the CPU's memory is host memory and needs no pinning");

TEST_CASE("pinned: size, move and reserve") {
  pinned<int, emulated> numbers(emulated{}, 3);
  CHECK(numbers.span().size() == 3);
  std::iota(numbers.span().begin(), numbers.span().end(), 5);
  const int* const address = numbers.span().data();
  numbers.reserve(2);
  CHECK(numbers.span().data() == address);
  pinned<int, emulated> other = std::move(numbers);
  CHECK(other.span().data() == address);
  CHECK(other.span()[2] == 7);
  CHECK(numbers.span().empty());
  other.reserve(4);
  CHECK(other.span().size() == 4);
}
