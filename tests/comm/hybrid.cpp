// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/gossip.hpp>
#include <cordee/comm/hybrid.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/native.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

using both = hybrid<butterfly<threads>, ring<threads>>;
static_assert(ReducerOn<both, float, cpu> && NarrowsOn<both, fp16, float, cpu>);
static_assert(both::offers == agreement::exact && both::lossless);
static_assert(hybrid<gossip<threads>, ring<threads>>::offers == agreement::mixing,
              "no more than the weaker of the two");
static_assert(ReducerOn<hybrid<native<threads>, ring<threads>>, float, cpu> &&
                  !NarrowsOn<hybrid<native<threads>, ring<threads>>, fp16, float, cpu>,
              "narrow as both are");

namespace {

// Messages that rank 0 of five sends for a mean of n numbers: one in a butterfly, whose neighbour
// stands in for it, eight in a ring.
std::size_t messages(std::size_t n, std::size_t limit) {
  std::vector<traffic> sent(5);
  on_ranks(5, [&](threads link) {
    const counted here{link, &sent[static_cast<std::size_t>(link.rank())]};
    const hybrid all{butterfly{here}, ring{here}, limit};
    std::vector<float> x(n);
    std::vector<std::byte> scratch(all.scratch<float>(n));
    all.mix(message<float, cpu, 0>{nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
            moment{}, cpu::stream{});
    return 0;
  });
  return sent[0].messages;
}

}  // namespace

TEST_CASE("hybrid keeps the laws below its limit and above") {
  CHECK(reducer_laws(
            [](auto link) {
              return hybrid{butterfly{link}, ring{link}, 997};
            },
            {.ranks = {1, 3, 4}}) == "");
}

TEST_CASE("hybrid: short messages go one way, longer ones the other") {
  constexpr std::size_t of_butterfly = 1, of_ring = 8;
  CHECK(messages(0, 100) == of_butterfly);
  CHECK(messages(100, 100) == of_butterfly);
  CHECK(messages(101, 100) == of_ring);
  CHECK(messages(1, 0) == of_ring);
}

TEST_CASE("hybrid says what it is") {
  on_ranks(2, [](threads link) {
    CHECK(hybrid{butterfly{link}, ring{link}, 100}.describe() ==
          "up to 100 numbers butterfly over 2 ranks: exact mean; beyond, ring over 2 ranks: exact "
          "mean");
    return 0;
  });
}
