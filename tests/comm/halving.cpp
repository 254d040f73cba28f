// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/halving.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("halving keeps the laws: 2 log2 p messages, 2n(p'-1) numbers, and 2n for each fold") {
  CHECK(reducer_laws([](auto link) { return halving{link}; },
                     {.messages = [](int r, int p) { return folded(r, p, 2 * halvings(p)); },
                      .numbers =
                          [](int p, std::size_t n) {
                            return 2 * n * whole(below(p) - 1) + 2 * n * whole(p - below(p));
                          }}) == "");
}

TEST_CASE("halving: no rank sends more than n + 2n(p'-1)/p'") {
  constexpr std::size_t n = 960;  // divisible by every p' below
  for (const auto& [ranks, most] : {std::pair{2, 1.0},
                                    {3, 2.0},
                                    {4, 1.5},
                                    {5, 2.5},
                                    {6, 2.5},
                                    {7, 2.5},
                                    {8, 1.75},
                                    {12, 2.75}}) {
    std::vector<traffic> sent(whole(ranks));
    threads::launch(ranks, [&](threads link) {
      std::vector<float> x(n);
      std::vector<std::byte> scratch(n * sizeof(float));
      halving{counted{link, &sent[whole(link.rank())]}}.mix(
          message<float, cpu, 0>{nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
          moment{}, cpu::stream{});
    });
    std::size_t bytes = 0;
    for (const traffic& t : sent) bytes = std::max(bytes, t.bytes);
    CHECK(static_cast<double>(bytes) == most * n * sizeof(float));
  }
}
