// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/int8/byte_region.hpp>

using namespace cordee::detail;
using ops::byte_region;
using ops::byte_regions;

namespace {

/// How often the regions of all parts have each (block, row).
std::vector<int> times_covered(const byte_regions& all, std::size_t count) {
  std::vector<int> covered(static_cast<std::size_t>(all.filter_blocks * all.height));
  for (std::size_t i = 0; i < count; ++i) {
    const byte_region r = all.of(core::equal_part{i, count});
    CHECK((r.empty() || r.first_block % 2 == 0));
    for (int f = r.first_block; f < r.last_block; ++f)
      for (int h = r.first_row; h < r.last_row; ++h)
        ++covered[static_cast<std::size_t>(f * all.height + h)];
  }
  return covered;
}
/// The largest region's share of all pairs of blocks and rows.
double largest_share(const byte_regions& all, std::size_t count) {
  int most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const byte_region r = all.of(core::equal_part{i, count});
    most = std::max(most, r.empty() ? 0 : (r.last_block - r.first_block + 1) / 2 * r.rows());
  }
  return static_cast<double>(most) / ((all.filter_blocks + 1) / 2 * all.height);
}

}  // namespace

TEST_CASE("byte_regions: each block of filters and row is in one region") {
  for (const int blocks : {1, 2, 3, 4, 9, 32})
    for (const int height : {1, 2, 7, 8, 28})
      for (const std::size_t count : {1u, 2u, 3u, 5u, 6u, 8u}) {
        const auto covered = times_covered({blocks, height, 1000, 100, 10}, count);
        CHECK(std::all_of(covered.begin(), covered.end(), [](int n) { return n == 1; }));
      }
}

TEST_CASE("byte_regions: rows or filters are divided, whichever leaves the smaller region") {
  CHECK(largest_share({2, 32, 1000, 100, 10}, 8) == 1.0 / 8);  // rows
  CHECK(largest_share({64, 1, 1000, 100, 10}, 8) == 1.0 / 8);  // filters
  CHECK(largest_share({4, 4, 1000, 100, 10}, 8) == 1.0 / 8);   // both
  CHECK(largest_share({8, 7, 1000, 100, 10}, 2) == 0.5);
  CHECK(largest_share({2, 2, 1000, 100, 10}, 8) == 0.5);  // more parts than pairs and rows
}

TEST_CASE("byte_regions: as many products either way, and a region reads the fewer bytes") {
  CHECK(byte_regions{8, 8, 1000, 10, 100}.of({0, 2}).rows() == 4);
  CHECK(byte_regions{8, 8, 1000, 100, 10}.of({0, 2}).rows() == 8);
}
