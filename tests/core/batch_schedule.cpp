// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/core/batch_schedule.hpp>

using namespace cordee;

TEST_CASE("batch_schedule: the factor of the last stage that has begun") {
  const batch_schedule b{{{1.5, 4}, {3, 2}}};
  CHECK((b(0) == 1 && b(std::nextafter(1.5, 0)) == 1 && b(1.5) == 4 && b(2.9) == 4 && b(3) == 2));
  CHECK(b.describe() == "times 4 from epoch 1.5, times 2 from epoch 3");
  batch_schedule full;
  for (int i = 0; i < static_cast<int>(batch_schedule::most_stages); ++i)
    full.stages[i] = {i + 1.0, i + 2};
  CHECK((full(31.5) == 32 && full(32) == 33));
  CHECK(batch_schedule{}(7) == 1);
  CHECK(batch_schedule{}.describe() == "constant");
}

TEST_CASE("batch_schedule refuses stages out of order, and factors below 1") {
  CHECK_THROWS_AS((batch_schedule{{{0, 2}}}.check()), usage_error);
  CHECK_THROWS_AS((batch_schedule{{{2, 2}, {2, 3}}}.check()), usage_error);
  CHECK_THROWS_AS((batch_schedule{{{2, 2}, {1, 3}}}.check()), usage_error);
  CHECK_THROWS_AS((batch_schedule{{{std::nan(""), 2}}}.check()), usage_error);
  CHECK_THROWS_AS((batch_schedule{{{HUGE_VAL, 2}}}.check()), usage_error);
  CHECK_THROWS_AS((batch_schedule{{{1, 0}}}.check()), usage_error);
  CHECK_THROWS_AS((batch_schedule{{{1, 2}, {}, {3, 4}}}.check()), usage_error);
  CHECK_NOTHROW((batch_schedule{{{1, 2}, {2, 1}}}.check()));
}
