// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Rounds on the critical path of each method, as in the cost models of its header.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/adasum.hpp>
#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/gathered.hpp>
#include <cordee/comm/halving_doubling.hpp>
#include <cordee/comm/one_shot.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/comm/two_shot.hpp>
#include <cordee/testing/counting_communicator.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Of one mean of a thousand numbers over so many ranks.
template <class Make>
std::size_t rounds_of(int ranks, const Make& make) {
  std::size_t most = 0;
  for (const traffic& t : on_ranks(ranks, [&](threads comm) {
         traffic sent;
         const auto reducer = make(counting_communicator{comm, &sent});
         constexpr int slots = std::remove_cvref_t<decltype(reducer)>::slots;
         std::vector<float> x(1000), e(1000);
         std::vector<std::byte> scratch(reducer.template scratch<float>(1000));
         bucket_view<float, cpu, slots> m{
             nullptr, {x.data(), 1000}, {}, {scratch.data(), scratch.size()}};
         if constexpr (slots > 0) m.slots[0] = {e.data(), 1000};
         reducer.mix(m, step_info{}, cpu::stream{});
         return sent;
       }))
    most = std::max(most, t.rounds);
  return most;
}

}  // namespace

TEST_CASE("rounds: of every method on 1, 2, 3, 5, 8 and 16 ranks") {
  for (const int ranks : {1, 2, 3, 5, 8, 16}) {
    CAPTURE(ranks);
    const auto p = static_cast<std::size_t>(ranks);
    const auto log_above = static_cast<std::size_t>(std::bit_width(p - 1));  // ceil log2
    const std::size_t log_below = static_cast<std::size_t>(std::bit_width(p)) - 1;
    const std::size_t pairs = std::has_single_bit(p) ? 0 : 2;
    CHECK(rounds_of(ranks, [](auto comm) { return ring{comm}; }) == 2 * (p - 1));
    CHECK(rounds_of(ranks, [](auto comm) { return tree{comm}; }) == 2 * log_above);
    CHECK(rounds_of(ranks, [](auto comm) { return butterfly{comm}; }) == log_below + pairs);
    CHECK(rounds_of(ranks, [](auto comm) { return adasum{comm}; }) == log_below + pairs);
    CHECK(rounds_of(ranks, [](auto comm) { return halving_doubling{comm}; }) ==
          2 * log_below + pairs);
    CHECK(rounds_of(ranks, [](auto comm) { return one_shot{comm}; }) ==
          std::min<std::size_t>(p - 1, 1));
    CHECK(rounds_of(ranks, [](auto comm) { return two_shot{comm}; }) ==
          2 * std::min<std::size_t>(p - 1, 1));
    CHECK(rounds_of(ranks, [](auto comm) {
            return gathered{comm, scaled_sign{}};
          }) == std::min<std::size_t>(p - 1, 1));
  }
}
