// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/step/host_buckets.hpp>

using namespace cordee;
using namespace cordee::detail::train;

namespace {

constexpr std::array<segment, 5> table{
    segment{"first", kind::weight, 0, 6400}, segment{"bias", kind::bias, 6400, 1},
    segment{"large", kind::weight, 6464, 20001}, segment{"last", kind::weight, 26496, 100},
    segment{"seen", kind::statistic, 26624, 1}};

struct packing_in_slices {
  std::size_t of_large;
  [[nodiscard]] std::size_t slice_of(std::size_t k) const { return k == 2 ? of_large : 0; }
};
struct model_in_slices {
  std::size_t of_large;
  [[nodiscard]] packing_in_slices packing() const { return {of_large}; }
};
struct whole_model {};

}  // namespace

TEST_CASE("host_buckets: without slices those of any run") {
  const auto plain = detail::core::make_buckets(table, 1000);
  const auto equal = [&](const detail::core::pod_vector<bucket>& found) {
    REQUIRE(found.size() == plain.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      CHECK(found[k].index == static_cast<int>(k));
      CHECK(found[k].offset == plain[k].offset);
      CHECK(found[k].size == plain[k].size);
    }
  };
  equal(host_buckets(whole_model{}, table, table, 1000, 4));
  equal(host_buckets(model_in_slices{0}, table, table, 1000, 4));
}

TEST_CASE("host_buckets: a large segment is cut at multiples of its slices and of 64 numbers") {
  for (const std::size_t slice : {8, 64, 96, 520, 1000}) {
    CAPTURE(slice);
    const auto found = host_buckets(model_in_slices{slice}, table, table, 1000, 4);
    const bucket_index index(table, found);
    std::size_t end = 26624, slices = 0;  // of the last bucket
    for (std::size_t k = 0; k < found.size(); ++k) {
      const bucket& b = found[k];
      CAPTURE(k);
      CHECK(b.index == static_cast<int>(k));
      CHECK(b.offset + b.size == end);
      end = b.offset;
      if (b.segments.front().name != "large") continue;
      REQUIRE(b.segments.size() == 1);
      CHECK(index.segment_of(b) == 2);
      CHECK(index.bucket_of(2) + slices == k);
      ++slices;
      CHECK((b.offset - table[2].offset) % slice == 0);
      CHECK(b.offset % 64 == 0);
      CHECK(b.size <= (slice % 64 == 0 || slice <= 96 ? 1000 : 64 * slice));
    }
    CHECK(end == 0);
    CHECK(slices == index.count(2));
    CHECK(index.count(0) == 1);  // larger than the limit, without slices
    CHECK(index.segment_of(found.back()) == 0);
  }
}

TEST_CASE("host_buckets: two slices have at most 0.18 bytes for each number, or the limit's") {
  for (const std::size_t width : {4, 6}) {
    const auto found = host_buckets(model_in_slices{64}, table, table, 64, width);
    std::size_t most = 0;
    for (const bucket& b : found)
      if (b.segments.front().name == "large") most = std::max(most, b.size);
    CHECK(static_cast<double>(2 * most * width) <= 0.18 * 26624);
    CHECK(static_cast<double>(2 * (most + 64) * width) > 0.18 * 26624);
  }
  CHECK(largest_pair({}) == 0);
  CHECK(largest_pair(detail::core::make_buckets(table, 1000)) == 20032 + 128);
}
