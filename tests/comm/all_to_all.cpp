// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/all_to_all.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// What rank 0 of p sends for a mean of n numbers, of which up to `limit` are told whole.
traffic sent(int p, std::size_t n, std::size_t limit) {
  std::vector<traffic> all(whole(p));
  on_ranks(p, [&](threads link) {
    const all_to_all mean{counted{link, &all[whole(link.rank())]}, limit};
    std::vector<float> x(n);
    std::vector<std::byte> scratch(mean.scratch<float>(n));
    mean.mix(message<float, cpu, 0>{nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
             moment{}, cpu::stream{});
    return 0;
  });
  return all[0];
}

}  // namespace

TEST_CASE("all_to_all keeps the laws: told whole, p-1 messages of n") {
  CHECK(reducer_laws(
            [](auto link) {
              return all_to_all{link, 10'000};
            },
            {.ranks = {1, 2, 3, 4, 5, 8},
             .messages = [](int, int p) { return whole(p - 1); },
             .numbers = [](int p, std::size_t n) { return n * whole(p * (p - 1)); }}) == "");
}

TEST_CASE("all_to_all keeps the laws: in parts, as many bytes as a ring") {
  CHECK(reducer_laws(
            [](auto link) {
              return all_to_all{link, 0};
            },
            {.ranks = {1, 2, 3, 4, 5, 8},
             .numbers = [](int p, std::size_t n) { return 2 * n * whole(p - 1); }}) == "");
}

TEST_CASE("all_to_all: up to its limit in one step, beyond in two") {
  CHECK(sent(5, 100, 100).messages == 4);
  CHECK(sent(5, 100, 100).bytes == 4 * 400);
  CHECK(sent(5, 101, 100).messages == 8);
}

TEST_CASE("all_to_all: the order of a sum is that of the ranks, whatever the length") {
  constexpr int p = 3;
  const auto by_rank = on_ranks(p, [&](threads link) {
    const float mine = std::array{1e8f, 1.0f, -1e8f}[whole(link.rank())];
    std::vector<float> means;
    for (const std::size_t limit : {std::size_t{0}, std::size_t{100}}) {
      const all_to_all mean{link, limit};
      std::vector<float> x(7, mine);
      std::vector<std::byte> scratch(mean.scratch<float>(7));
      mean.mix(message<float, cpu, 0>{nullptr, {x.data(), 7}, {}, {scratch.data(), scratch.size()}},
               moment{}, cpu::stream{});
      means.insert(means.end(), x.begin(), x.end());
    }
    return means;
  });
  for (const auto& means : by_rank)
    for (const float x : means) CHECK(x == (1e8f + 1.0f - 1e8f) / p);
}
