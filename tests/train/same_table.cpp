// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/train/same_table.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// What is said when rank 2 of 4 has another table, or cuts it at another limit.
std::string said_of(std::span<const segment> other, std::size_t limit) {
  return complaint([&] {
    threads::launch(
        4,
        [&](threads link) {
          const bool odd = link.rank() == 2;
          const std::span<const segment> table = odd ? other : std::span<const segment>(t4_table);
          expect_same_table(link, table, cut(table, odd ? limit : 1000));
        },
        patient);
  });
}

}  // namespace

TEST_CASE("same table: ranks that agree go on") { CHECK(said_of(t4_table, 1000).empty()); }

TEST_CASE("same table: another name, shape, number of tensors or bucket limit names both ranks") {
  const std::string first = "trainer: rank 0 has 5 tensors in 1 buckets (";
  auto renamed = t4_table;
  renamed[1].name = "b7";
  CHECK(contains(said_of(renamed, 1000), first.c_str()));
  CHECK(contains(said_of(renamed, 1000), "rank 2 has 5 tensors in 1 buckets ("));
  auto reshaped = t4_table;
  reshaped[2].shape = {2, 1, 0, 0};
  CHECK(contains(said_of(reshaped, 1000), "rank 2 has 5 tensors in 1 buckets ("));
  CHECK(contains(said_of(std::span(t4_table).first(4), 1000), "rank 2 has 4 tensors in 1 buckets"));
  CHECK(contains(said_of(t4_table, 64), "rank 2 has 5 tensors in 4 buckets"));
}
