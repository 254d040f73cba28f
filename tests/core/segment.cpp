// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/segment.hpp>

using namespace cordee;
using namespace cordee::detail::core;

namespace {
/// A table of these sizes, laid out as models do, whose last `statistics` segments are statistics.
std::vector<segment> table_of(const std::vector<std::size_t>& sizes, std::size_t statistics = 0) {
  std::vector<segment> table;
  std::size_t offset = 0;
  for (const std::size_t size : sizes) {
    const bool tail = table.size() + statistics >= sizes.size();
    table.push_back({"s", tail ? kind::statistic : kind::weight, offset, size});
    offset += detail::core::align_up(size);
  }
  return table;
}
}  // namespace

TEST_CASE(
    "make_buckets: buckets cover the trainable numbers from last to first, without overlap or "
    "gap") {
  const std::vector<std::vector<std::size_t>> tables{
      {1}, {64}, {65, 1}, {1, 64, 128, 63, 700, 5}, {300, 300, 300, 300, 300}};
  for (const auto& sizes : tables)
    for (const std::size_t statistics : {std::size_t{0}, sizes.size() / 2})
      for (const std::size_t limit : {0u, 1u, 64u, 65u, 128u, 640u, 641u, 1000000u}) {
        const auto table = table_of(sizes, statistics);
        const std::size_t trainable_segments = detail::core::count_trainable(table);
        const auto buckets = detail::core::make_buckets(table, limit);
        std::size_t end = table[trainable_segments - 1].offset +
                          detail::core::align_up(table[trainable_segments - 1].size);
        std::size_t last = trainable_segments;
        for (std::size_t i = 0; i < buckets.size(); ++i) {
          const bucket& b = buckets[i];
          REQUIRE(b.index == static_cast<int>(i));
          REQUIRE(b.offset + b.size == end);
          REQUIRE(b.first_segment + b.segments.size() == last);
          REQUIRE(!b.segments.empty());
          REQUIRE(b.segments.data() ==
                  table.data() + b.first_segment);  // whole segments of the table
          REQUIRE(b.offset == b.segments.front().offset);
          REQUIRE((b.size <= limit || b.segments.size() == 1));
          end = b.offset;
          last = b.first_segment;
        }
        CHECK((end == 0 && last == 0));
      }
}

TEST_CASE("make_buckets: the next segment would exceed the limit of a bucket") {
  const auto table = table_of({1, 64, 128, 63, 700, 5});
  for (const std::size_t limit : {64u, 128u, 192u, 832u, 1024u}) {
    const auto buckets = detail::core::make_buckets(table, limit);
    for (std::size_t i = 0; i + 1 < buckets.size(); ++i) {
      const segment& next = table[buckets[i].first_segment - 1];
      CHECK(buckets[i].offset + buckets[i].size - next.offset > limit);
    }
  }
}

TEST_CASE(
    "make_buckets: statistics are in no bucket; without trainable segments there is no bucket") {
  CHECK(detail::core::make_buckets({}, 100).empty());
  CHECK(detail::core::make_buckets(table_of({3, 4}, 2), 100).empty());
  CHECK(detail::core::count_trainable(table_of({1, 2, 3, 4}, 2)) == 2);
}

TEST_CASE("align_up: the next multiple of 256 bytes of FP32") {
  CHECK(detail::core::align_up(0) == 0);
  for (const std::size_t n : {1u, 63u, 64u}) CHECK(detail::core::align_up(n) == 64);
  CHECK(detail::core::align_up(65) == 128);
}

TEST_CASE("fingerprint: changes with the name, kind, offset, size and shape of any segment") {
  const std::vector<segment> table{{"conv", kind::weight, 0, 9}, {"scale", kind::scale, 64, 3}};
  const std::uint64_t before = detail::core::fingerprint(table);
  CHECK(detail::core::fingerprint(std::vector(table)) == before);
  for (std::size_t i = 0; i < table.size(); ++i) {
    auto name = table, kinds = table, offset = table, size = table, dims = table;
    name[i].name = "other";
    kinds[i].kind = kind::bias;
    offset[i].offset += 64;
    size[i].size += 1;
    dims[i].shape[0] += 1;
    for (const auto& changed : {name, kinds, offset, size, dims})
      CHECK(detail::core::fingerprint(changed) != before);
  }
  CHECK(detail::core::fingerprint(std::vector{table[1], table[0]}) != before);
  CHECK(detail::core::fingerprint(std::vector{table[0]}) != before);
}

TEST_CASE("kinds: a union contains the kinds of both operands") {
  constexpr std::array all{kind::weight, kind::bias, kind::scale, kind::shift, kind::statistic};
  for (const kind a : all)
    for (const kind b : all)
      for (const kind c : all) CHECK((a | b)(c) == (c == a || c == b));
  for (const kind k : all) {
    CHECK_FALSE(kinds{}(k));
    CHECK(trainable(k) == (k != kind::statistic));
  }
}
