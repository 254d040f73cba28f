// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/testing/mix_count.hpp>

using cordee::detail::testing::mix_count;

TEST_CASE("mix_count: the smaller group is at fault, and of equal ones that which has returned") {
  mix_count mixes(4);
  CHECK(mixes.describe().empty());
  for (auto& n : mixes.begun) n = 2;
  for (auto& n : mixes.returned) n = 2;
  CHECK(mixes.describe().empty());
  mixes.begun[1] = 3;
  CHECK(mixes.describe() ==
        "; rank 1 waited in mix while rank 0, rank 2, rank 3 returned from it: it expects an "
        "exchange that they do not make");
  mixes.begun[0] = mixes.begun[3] = 3;
  CHECK(mixes.describe() ==
        "; rank 2 returned from mix while rank 0, rank 1, rank 3 waited in it: it must make every "
        "exchange that they expect");
  mixes.begun[2] = 3;
  CHECK(mixes.describe().empty());
  mixes.returned[1] = mixes.returned[2] = 3;
  CHECK(mixes.describe().find("; rank 1, rank 2 returned") == 0);
}

TEST_CASE("mix_count: a process that sees its own calls alone blames none") {
  mix_count mixes(3);
  mixes.begun[1] = 1;
  CHECK(mixes.describe().empty());
}
