// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/schedule/constant.hpp>

using namespace cordee;

TEST_CASE("constant: the same learning rate at every epoch") {
  constexpr constant s{.learning_rate = 0.3};
  static_assert(s(0) == 0.3 && s(1e6) == 0.3);
  for (const double e : {0.0, 0.5, 90.0}) CHECK(s(e) == 0.3);
}
