// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/images/region.hpp>

using namespace cordee;
using namespace cordee::detail::images;

TEST_CASE("region: lies in an image unless a side is beyond it") {
  CHECK(lies_in({0, 0, 5, 4}, {5, 4}));
  CHECK(lies_in({4, 3, 1, 1}, {5, 4}));
  constexpr int most = std::numeric_limits<int>::max();
  for (const region& r : {region{-1, 0, 1, 1}, region{0, -1, 1, 1}, region{0, 0, 0, 1},
                          region{0, 0, 1, 0}, region{0, 0, 6, 1}, region{0, 0, 1, 5},
                          region{5, 0, 1, 1}, region{0, 4, 1, 1}, region{most, most, most, most}})
    CHECK_FALSE(lies_in(r, {5, 4}));
}

TEST_CASE("region: the sides of a reduced image are rounded up") {
  for (const int scale : {1, 2, 4, 8})
    for (int n = 1; n < 40; ++n)
      CHECK(reduced({n, n + 3}, scale) ==
            image_size{(n + scale - 1) / scale, (n + 3 + scale - 1) / scale});
}
