// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/comm/completed_op.hpp>

using cordee::detail::comm::completed_op;

TEST_CASE("completed_op: parse reverses serialize, and consecutive ranks are one range") {
  for (const std::vector<int>& ranks : {std::vector{3}, {0, 1, 2}, {0, 2, 3, 7, 9, 10, 11}}) {
    const completed_op op{12, "step 3, bucket 0 (W1 to b2, 2048 bytes)", ranks};
    const completed_op parsed = completed_op::parse(op.serialize());
    CHECK(parsed.count == 12);
    CHECK(parsed.name == op.name);
    CHECK(parsed.ranks == ranks);
  }
  completed_op all{1, "bucket 0", std::vector<int>(1000)};
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  CHECK(all.serialize() == "1 0-999 bucket 0");
  CHECK(all.includes(999));
  CHECK_FALSE(all.includes(1000));
}
