// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"

using namespace cordee;
using namespace support;

TEST_CASE(
    "halving_doubling keeps the laws of an exact reducer: 2 log2 p messages, 2n(p'-1) numbers, 2n "
    "a pair") {
  CHECK(reducer_laws(
            [](auto comm) { return halving_doubling{comm}; },
            {.messages = [](int r, int p) { return remapped_messages(r, p, 2 * log2_below(p)); },
             .numbers =
                 [](int p, std::size_t n) {
                   return 2 * n * to_size(power_below(p) - 1) + 2 * n * to_size(p - power_below(p));
                 }}) == "");
}

TEST_CASE("halving_doubling: no rank sends more than n + 2n(p'-1)/p'") {
  constexpr std::size_t n = 960;  // divisible by every p' below
  for (const auto& [ranks, most] : {std::pair{2, 1.0},
                                    {3, 2.0},
                                    {4, 1.5},
                                    {5, 2.5},
                                    {6, 2.5},
                                    {7, 2.5},
                                    {8, 1.75},
                                    {12, 2.75}}) {
    std::vector<traffic> sent(to_size(ranks));
    threads::launch(ranks, [&](threads comm) {
      std::vector<float> x(n);
      std::vector<std::byte> scratch(n * sizeof(float));
      halving_doubling{counting_communicator{comm, &sent[to_size(comm.rank())]}}.mix(
          bucket_view<float, cpu, 0>{nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
          step_info{}, cpu::stream{});
    });
    std::size_t bytes = 0;
    for (const traffic& t : sent) bytes = std::max(bytes, t.bytes);
    CHECK(static_cast<double>(bytes) == most * n * sizeof(float));
  }
}
