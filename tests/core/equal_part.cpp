// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/core/equal_part.hpp>

using cordee::detail::core::equal_part;

TEST_CASE("equal_part: parts follow one another, are all of the work, and differ by one unit") {
  for (const std::size_t count : {1u, 2u, 3u, 5u, 8u})
    for (const std::size_t n : {0u, 1u, 4u, 7u, 8u, 9u, 1000u}) {
      std::size_t done = 0, least = n, most = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const equal_part p{i, count};
        CHECK(p.first(n) == done);
        done = p.last(n);
        least = std::min(least, done - p.first(n));
        most = std::max(most, done - p.first(n));
      }
      CHECK(done == n);
      CHECK(most - least <= 1);
    }
  CHECK(equal_part{}.first(5) == 0);
  CHECK(equal_part{}.last(5) == 5);
}
