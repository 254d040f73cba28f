// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/comm/milestone.hpp>

using namespace cordee;

TEST_CASE("milestone: a line says it whole, and in a few words where many ranks had part in it") {
  for (const std::vector<int>& ranks : {std::vector{3}, {0, 1, 2}, {0, 2, 3, 7, 9, 10, 11}}) {
    const milestone said{12, "step 3, bucket 0 (W1 to b2, 2048 bytes)", ranks};
    const milestone heard = milestone::of(said.line());
    CHECK(heard.count == 12);
    CHECK(heard.name == said.name);
    CHECK(heard.ranks == ranks);
  }
  milestone all{1, "bucket 0", std::vector<int>(1000)};
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  CHECK(all.line() == "1 0-999 bucket 0");
  CHECK(all.includes(999));
  CHECK_FALSE(all.includes(1000));
}
