// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <cordee/ops/loss.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
}

TEST_CASE("label_rank: larger logits rank above, of equal ones the first, NaN above all") {
  const std::array z{2.0, 5.0, 5.0, -1.0};
  CHECK(label_rank(z.data(), 4, 1) == 0);
  CHECK(label_rank(z.data(), 4, 2) == 1);
  CHECK(label_rank(z.data(), 4, 0) == 2);
  CHECK(label_rank(z.data(), 4, 3) == 3);
  const std::array with_nan{1.0, not_a_number, 3.0};
  CHECK(label_rank(with_nan.data(), 3, 2) == 1);
  CHECK(label_rank(with_nan.data(), 3, 1) == std::numeric_limits<int>::max());
}

TEST_CASE("checked_metrics: throws for a label outside the classes, and names it") {
  const metrics m = checked_metrics({{1.5, 2, 3, 4}}, 10);
  CHECK((m.loss == 1.5 && m.top1 == 2 && m.top5 == 3 && m.count == 4));
  CHECK_THROWS_WITH_AS((void)checked_metrics({{}, 8, 12}, 10),
                       doctest::Contains("sample 7 of the batch has label 12"), error);
}
