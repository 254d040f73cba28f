// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include <doctest/doctest.h>

#include <cordee/comm/consensus.hpp>
#include <cordee/comm/gossip.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/core/random.hpp>
#include <cordee/testing/gossip_laws.hpp>

#include "tests/support/graphs.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/slowed.hpp"

using namespace cordee;
using namespace support;

static_assert(ReducerOn<gossip<threads>, float, cpu> &&
              ReducerOn<gossip<alone, user_graph>, double, cpu>);
static_assert(Gossips<gossip<threads, one_peer>> && !Gossips<ring<threads>> && !Gossips<solo>);

namespace {

template <class R, class Real>
void mix(const R& r, std::vector<Real>& x, std::int64_t round) {
  std::vector<std::byte> scratch(r.template scratch<Real>(x.size()));
  r.mix(message<Real, cpu, 0>{nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}},
        moment{.round = round}, cpu::stream{});
}

template <class Real>
std::vector<Real> noise(int rank, std::size_t n) {
  random_sequence random(11, purpose::test, static_cast<std::uint64_t>(rank), n);
  std::vector<Real> x(n);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  return x;
}

}  // namespace

TEST_CASE("gossip obeys the laws of mixing on every graph and every number of ranks it serves") {
  with_graphs([](const auto& graph, int ranks) {
    CAPTURE(graph.describe());
    CHECK(gossip_laws(graph, {.ranks = {ranks}}) == "");
  });
}

TEST_CASE("gossip: ranks that agree stay as they are, to the bit, for thousands of rounds") {
  for (const auto& x : on_ranks(3, [](threads link) {
         auto own = noise<float>(0, 13);
         for (int round = 0; round < 3000; ++round) mix(gossip{link}, own, round);
         return own;
       }))
    CHECK(x == noise<float>(0, 13));
}

TEST_CASE("gossip: the result does not depend on timing") {
  const auto run = [](int microseconds) {
    return on_ranks(8, [&](threads link) {
      auto x = noise<float>(link.rank(), 501);
      const slowed late{link, 1e12, std::chrono::microseconds(link.rank() * microseconds % 700)};
      for (int round = 0; round < 5; ++round) mix(gossip{late, exponential{}}, x, round);
      return x;
    });
  };
  const auto first = run(0);
  for (const int microseconds : {133, 577})
    for (const auto& [a, b] : {std::pair{run(microseconds), first}})
      for (std::size_t r = 0; r < 8; ++r)
        CHECK(std::memcmp(a[r].data(), b[r].data(), 501 * sizeof(float)) == 0);
}

TEST_CASE(
    "gossip: it says its graph and its spectral gap, and refuses sizes before the first step") {
  on_ranks(8, [](threads link) {
    CHECK(gossip{link}.describe() == "gossip over 8 ranks, cycle: spectral gap 0.195262 a round");
    CHECK(contains(gossip{link, lazy{hypercube{}, 0.5}}.describe(),
                   "lazy hypercube (theta 0.5): spectral gap 0.25"));
    return 0;
  });
  on_ranks(6, [](threads link) {
    CHECK(contains(complaint([&] {
                     (void)gossip{link, hypercube{}}.scratch<float>(5);
                   }),
                   "power of two"));
    CHECK(contains(complaint([&] {
                     (void)gossip{link, xor_matching{}}.radius({});
                   }),
                   "power of two"));
    CHECK(contains(complaint([&] {
                     (void)gossip{link, user_graph::metropolis({{1}, {0}})}.scratch<float>(5);
                   }),
                   "made for 2 ranks, and the run has 6"));
    return 0;
  });
}

TEST_CASE("gossip: its remedies are numbers that were computed") {
  on_ranks(8, [](threads link) {
    const auto said = gossip{link, exponential{}}.remedies({0.9, false});
    std::string all;
    for (const std::string& s : said) all += s + "; ";
    CAPTURE(all);
    CHECK(contains(all, "a momentum below 0.519816"));
    CHECK(contains(all, "theta below 0.0470"));
    CHECK(contains(all, "Nesterov's form, whose radius is 0.989891"));
    CHECK(contains(all, "symmetric_exponential has radius 0.948683"));
    CHECK(gossip{link}.radius({0.9, false}) < 1);
    return 0;
  });
}

TEST_CASE("the distance from consensus is the root mean square over ranks") {
  for (const int ranks : rank_counts)
    for (
        const double d : on_ranks(ranks, [&](threads link) {
          std::vector<double> x{1.0 * link.rank(), 5, 7 - 2.0 * link.rank()};
          return consensus_distance(link, cpu{1}, span_on<double, cpu>{x.data(), 3}, cpu::stream{});
        }))
      // ranks 0 .. p-1 have the variance (p^2 - 1) / 12
      CHECK(close(d, std::sqrt(5 * (ranks * ranks - 1) / 12.0), 1e-14));
}
