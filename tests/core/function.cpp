// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/function.hpp>

TEST_CASE("function: the header declares std::function") {
  const std::function<int(int)> next = [](int x) { return x + 1; };
  CHECK(next(2) == 3);
}
