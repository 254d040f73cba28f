// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/butterfly.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("butterfly keeps the laws: log2 p messages of n, and two more where it is folded") {
  CHECK(reducer_laws([](auto link) { return butterfly{link}; },
                     {.messages = [](int r, int p) { return folded(r, p, halvings(p)); },
                      .numbers =
                          [](int p, std::size_t n) {
                            return n * whole(below(p) * halvings(p) + 2 * (p - below(p)));
                          }}) == "");
}
