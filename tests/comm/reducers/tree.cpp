// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/tree.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"

using namespace cordee;
using namespace support;

TEST_CASE(
    "tree keeps the laws of an exact reducer: one message up and one down each of p-1 edges") {
  CHECK(reducer_laws([](auto comm) { return tree{comm}; },
                     {.messages = tree_messages, .numbers = [](int p, std::size_t n) {
                        return 2 * n * to_size(p - 1);
                      }}) == "");
  for (const int p : {2, 3, 4, 5, 8, 9, 16})  // the root sends ceil(log2 p) times
    CHECK(tree_messages(0, p) == to_size(log2_below(p) + (p == power_below(p) ? 0 : 1)));
}
