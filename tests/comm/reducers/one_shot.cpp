// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(ReducerOn<one_shot<threads>, float, cpu>);

TEST_CASE("one_shot keeps the laws of an exact reducer: p-1 messages of n numbers a rank") {
  CHECK(reducer_laws([](auto comm) { return one_shot{comm}; },
                     {.ranks = {1, 2, 3, 4, 5, 8},
                      .messages = [](int, int p) { return to_size(p - 1); },
                      .numbers = [](int p, std::size_t n) { return n * to_size(p * (p - 1)); }}) ==
        "");
}

TEST_CASE("one_shot adds in the order of ranks") {
  for (const float x : on_ranks(4, [](threads comm) {
         float x = std::array{1e8f, 1.0f, -1e8f, 1.0f}[to_size(comm.rank())];
         std::array<std::byte, 4 * sizeof x> scratch;
         one_shot{comm}.mix(
             bucket_view<float, cpu, 0>{nullptr, {&x, 1}, {}, {scratch.data(), scratch.size()}},
             step_info{}, cpu::stream{});
         return x;
       }))
    CHECK(x == (1e8f + 1.0f - 1e8f + 1.0f) / 4);
}

TEST_CASE("one_shot describes itself") {
  on_ranks(2, [](threads comm) {
    CHECK(one_shot{comm}.describe() == "one-shot over 2 ranks: exact mean");
    return 0;
  });
}
