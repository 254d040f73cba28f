// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <doctest/doctest.h>

#include <cordee/device/arena.hpp>
#include <cordee/device/cpu.hpp>

using namespace cordee;

namespace {
constexpr std::array table{segment{"a", kind::weight, 0, 70}, segment{"b", kind::bias, 128, 1}};
}

TEST_CASE("arena: planes hold the whole padded table and are zero initially") {
  arena<float, cpu> planes(cpu(1), table, 3);
  CHECK(planes.planes() == 3);
  CHECK(planes.plane_size() == 192);
  for (int p = 0; p < 3; ++p) {
    REQUIRE(planes.plane(p).size == 192);
    for (const float x : planes.plane(p)) CHECK(x == 0);
  }
}

TEST_CASE("arena: planes do not overlap") {
  arena<float, cpu> planes(cpu(1), table, 3);
  for (int p = 0; p < 3; ++p)
    for (float& x : planes.plane(p)) x = static_cast<float>(p + 1);
  for (int p = 0; p < 3; ++p)
    for (const float x : planes.plane(p)) REQUIRE(x == static_cast<float>(p + 1));
}

TEST_CASE("arena: every segment of every plane is aligned to 256 bytes of float") {
  arena<float, cpu> planes(cpu(1), table, 2);
  for (int p = 0; p < 2; ++p)
    for (const segment& s : table)
      CHECK(reinterpret_cast<std::uintptr_t>(planes.plane(p).data + s.offset) % 256 == 0);
}

TEST_CASE("arena: planes behind the whole ones are as short as wished") {
  arena<float, cpu> planes(cpu(1), table, 4, 2, 64);
  CHECK(planes.size() == 2 * 192 + 2 * 64);
  for (int p = 0; p < 4; ++p)
    for (float& x : planes.plane(p)) x = static_cast<float>(p + 1);
  for (int p = 0; p < 4; ++p) {
    REQUIRE(planes.plane(p).size == (p < 2 ? 192 : 64));
    for (const float x : planes.plane(p)) REQUIRE(x == static_cast<float>(p + 1));
  }
}

TEST_CASE("arena: an index out of range is a usage_error; an empty table has empty planes") {
  arena<double, cpu> planes(cpu(1), table, 2);
  CHECK_THROWS_AS(static_cast<void>(planes.plane(2)), usage_error);
  CHECK_THROWS_AS(static_cast<void>(planes.plane(-1)), usage_error);
  arena<double, cpu> empty(cpu(1), {}, 4);
  CHECK(empty.plane(3).empty());
}
