// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

using both = hybrid<butterfly<threads>, ring<threads>>;
static_assert(ReducerOn<both, float, cpu> && CompressibleOn<both, fp16, float, cpu>);
static_assert(both::offers == agreement::exact && both::lossless);
static_assert(hybrid<gossip<threads>, ring<threads>>::offers == agreement::mixing,
              "the weaker of the two");
static_assert(ReducerOn<hybrid<native<threads>, ring<threads>>, float, cpu> &&
                  !CompressibleOn<hybrid<native<threads>, ring<threads>>, fp16, float, cpu>,
              "compressible where both are");

namespace {

// Messages that rank 0 of five sends for a mean of n numbers.
std::size_t messages(std::size_t n, std::size_t threshold) {
  std::vector<traffic> sent(5);
  on_ranks(5, [&](threads comm) {
    const counting_communicator counting{comm, &sent[static_cast<std::size_t>(comm.rank())]};
    const hybrid reducer{butterfly{counting}, ring{counting}, threshold};
    std::vector<float> x(n);
    std::vector<std::byte> scratch(reducer.scratch<float>(n));
    reducer.mix(
        bucket_view<float, cpu, 0>{nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
        step_info{}, cpu::stream{});
    return 0;
  });
  return sent[0].messages;
}

}  // namespace

TEST_CASE("hybrid keeps the laws of an exact reducer below its threshold and above") {
  CHECK(reducer_laws(
            [](auto comm) {
              return hybrid{butterfly{comm}, ring{comm}, 997};
            },
            {.ranks = {1, 3, 4}}) == "");
}

TEST_CASE("hybrid: up to the threshold the small reducer, beyond it the large one") {
  constexpr std::size_t of_butterfly = 1, of_ring = 8;  // rank 0 is idle in the butterfly
  CHECK(messages(0, 100) == of_butterfly);
  CHECK(messages(100, 100) == of_butterfly);
  CHECK(messages(101, 100) == of_ring);
  CHECK(messages(1, 0) == of_ring);
}

TEST_CASE(
    "hybrid of one_shot and two_shot: (p-1) n numbers a rank up to the threshold, 2(p-1)n/p "
    "beyond") {
  for (const int p : {2, 3, 5})
    for (const std::size_t n : {60u, 61u, 120u}) {
      const auto ranks = static_cast<std::size_t>(p);
      std::vector<traffic> sent(ranks);
      on_ranks(p, [&](threads comm) {
        const counting_communicator counting{comm, &sent[static_cast<std::size_t>(comm.rank())]};
        const hybrid reducer{one_shot{counting}, two_shot{counting}, 60};
        std::vector<float> x(n);
        std::vector<std::byte> scratch(reducer.scratch<float>(n));
        reducer.mix(
            bucket_view<float, cpu, 0>{
                nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
            step_info{}, cpu::stream{});
        return 0;
      });
      std::size_t bytes = 0;
      for (const traffic& t : sent) {
        CHECK(t.messages == (n <= 60 ? 1 : 2) * (ranks - 1));
        bytes += t.bytes;
      }
      CHECK(bytes == (n <= 60 ? ranks : 2) * (ranks - 1) * n * sizeof(float));
    }
}

TEST_CASE("hybrid describes itself") {
  on_ranks(2, [](threads comm) {
    CHECK(hybrid{butterfly{comm}, ring{comm}, 100}.describe() ==
          "up to 100 numbers butterfly over 2 ranks: exact mean; beyond, ring over 2 ranks: exact "
          "mean");
    return 0;
  });
}
