// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/images/reason_counts.hpp>

using cordee::concat;
using cordee::detail::images::reason_counts;

TEST_CASE("reason_counts: the most frequent first, each with the first name; no more than a few") {
  reason_counts counts;
  CHECK(counts.total() == 0);
  CHECK(counts.describe().empty());
  counts.add("absolute", "a");
  counts.add("truncated", "b");
  counts.add("truncated", "c");
  CHECK(counts.describe() == "2: truncated (the first: b); 1: absolute (a)");
  for (int k = 0; k < 100; ++k) counts.add(concat("reason ", k), "d");
  CHECK(counts.total() == 103);
  CHECK(counts.describe().ends_with("; 1: reason 9 (d); 90: other reasons"));
}
