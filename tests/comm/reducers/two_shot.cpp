// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(ReducerOn<two_shot<threads>, float, cpu>);

TEST_CASE("two_shot keeps the laws of an exact reducer: 2(p-1) messages a rank, a ring's bytes") {
  CHECK(reducer_laws([](auto comm) { return two_shot{comm}; },
                     {.ranks = {1, 2, 3, 4, 5, 8},
                      .messages = [](int, int p) { return to_size(2 * (p - 1)); },
                      .numbers = [](int p, std::size_t n) { return 2 * n * to_size(p - 1); }}) ==
        "");
}

TEST_CASE("two_shot adds in the order of ranks, in every chunk") {
  for (const auto& x : on_ranks(4, [](threads comm) {
         const two_shot reducer{comm};
         std::vector<float> x(7, std::array{1e8f, 1.0f, -1e8f, 1.0f}[to_size(comm.rank())]);
         std::vector<std::byte> scratch(reducer.scratch<float>(x.size()));
         reducer.mix(
             bucket_view<float, cpu, 0>{
                 nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}},
             step_info{}, cpu::stream{});
         return x;
       }))
    CHECK(x == std::vector<float>(7, (1e8f + 1.0f - 1e8f + 1.0f) / 4));
}

TEST_CASE("two_shot describes itself") {
  on_ranks(2, [](threads comm) {
    CHECK(two_shot{comm}.describe() == "two-shot over 2 ranks: exact mean");
    return 0;
  });
}
