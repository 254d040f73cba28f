// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <doctest/doctest.h>

#include <cordee/core/option_range.hpp>

using namespace cordee;
using namespace cordee::detail::core;

TEST_CASE("option_range: values outside are refused by policy and member; NaN is outside of all") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {-1.0, infinity, -infinity, infinity - infinity}) {
    CHECK_THROWS_WITH_AS(expects_not_negative("sgd", "momentum", bad),
                         doctest::Contains("sgd: momentum is "), usage_error);
    CHECK_THROWS_WITH_AS(expects_positive("lars", "epsilon", bad),
                         doctest::Contains("lars: epsilon is "), usage_error);
  }
  CHECK_THROWS_AS(expects_positive("lars", "epsilon", 0), usage_error);
  expects_not_negative("sgd", "momentum", 0);
  expects_positive("lars", "epsilon", 5e-324);
}
