// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Of a run it is tested in tests/train/step/memory_plan.cpp.
#include <doctest/doctest.h>

#include <cordee/train/describe_memory.hpp>

using namespace cordee::detail;

TEST_CASE("describe_memory: the slots of a rank, and those of all") {
  train::memory_plan whole;
  whole.add("weights", 800);
  whole.add("optimizer slots", 1'600);
  CHECK(train::total_with_shards(whole, false, 8) == 800 + 200 + 100);
  train::memory_plan part;
  part.add("weights", 800);
  part.add("optimizer slots", 200);
  part.add("this rank's weights", 100);
  CHECK(train::total_with_shards(part, true, 8) == 800 + 1'600);
  CHECK(train::total_with(whole, {1, 2, 3, 4}) == 2'410);
  whole.add("activations", 500);
  CHECK(train::total_with(whole, {1, 2, 3, 4}) == 2'410);
}
