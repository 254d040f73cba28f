// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/comm/failure/failure_report.hpp>

using cordee::detail::comm::completed_op;

TEST_CASE("completed_op: parse reverses serialize, and consecutive ranks are one range") {
  for (const std::vector<int>& ranks : {std::vector{3}, {0, 1, 2}, {0, 2, 3, 7, 9, 10, 11}}) {
    const completed_op op{12, "step 3, bucket 0 (W1 to b2, 2048 bytes)", ranks};
    const auto parsed = completed_op::parse(op.serialize(), 12);
    REQUIRE(parsed.has_value());
    CHECK(parsed->count == 12);
    CHECK(parsed->name == op.name);
    CHECK(parsed->ranks == ranks);
    CHECK(completed_op::parse(op.serialize(), ranks.back() + 1).has_value());
    CHECK_FALSE(completed_op::parse(op.serialize(), ranks.back()).has_value());
  }
  completed_op all{1, "bucket 0", std::vector<int>(1000)};
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  CHECK(all.serialize() == "1 0-999 bucket 0");
  CHECK(all.includes(999));
  CHECK_FALSE(all.includes(1000));
}

TEST_CASE("completed_op: what serialize does not write is no operation") {
  for (const char* line :
       {"", "x", "1", "1 ", "1 0", "1 0-", "1 0-0", "-1 0-0 x", "1 0-9999999999 x", "1 3-2 x",
        "1 -1-2 x", "1 0-1,1-2 x", "1 2-3,0-1 x", "1 0-1, x", "1 0-4 x", "1  0-0 x",
        "99999999999999999999 0-0 x", "1 0-0,x"})
    CHECK_FALSE(completed_op::parse(line, 4).has_value());
  CHECK(completed_op::parse("1 0-0 ", 4).has_value());
}
