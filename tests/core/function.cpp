// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/core/function.hpp>

#include <doctest/doctest.h>

TEST_CASE("function: the header declares std::function") {
  const std::function<int(int)> next = [](int x) { return x + 1; };
  CHECK(next(2) == 3);
}
