// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"

using namespace cordee;
using namespace support;

TEST_CASE(
    "butterfly keeps the laws of an exact reducer: log2 p messages of n, two more for a pair") {
  CHECK(reducer_laws(
            [](auto comm) { return butterfly{comm}; },
            {.messages = [](int r, int p) { return remapped_messages(r, p, log2_below(p)); },
             .numbers =
                 [](int p, std::size_t n) {
                   return n * to_size(power_below(p) * log2_below(p) + 2 * (p - power_below(p)));
                 }}) == "");
}
