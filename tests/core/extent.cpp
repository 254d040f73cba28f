// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/extent.hpp>

using namespace cordee;

namespace {
template <extent E>
struct constant {
  static constexpr extent value = E;
};
}  // namespace

TEST_CASE("extent: size is channels times pixels, without overflow of int") {
  static_assert(extent{3, 32, 32}.pixels() == 1024 && extent{3, 32, 32}.size() == 3072);
  static_assert(extent{}.size() == 0);
  CHECK(extent{4096, 1024, 1024}.size() == std::size_t{1} << 32);
}

TEST_CASE("extent: equal extents are the same type when they are template arguments") {
  static_assert(std::is_same_v<constant<extent{1, 2, 3}>,
                               constant<extent{.channels = 1, .height = 2, .width = 3}>>);
  static_assert(!std::is_same_v<constant<extent{1, 2, 3}>, constant<extent{1, 3, 2}>>);
  CHECK(constant<extent{1, 2, 3}>::value == extent{1, 2, 3});
  CHECK(describe(extent{3, 224, 112}) == "3x224x112");
}
