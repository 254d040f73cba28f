// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/consensus.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/core/random.hpp>
#include <cordee/testing/gossip_laws.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/delayed_comm.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/topologies.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

static_assert(ReducerOn<gossip<threads>, float, cpu> &&
              ReducerOn<gossip<self_comm, topologies::adjacency>, double, cpu>);
static_assert(HasSpectralRadius<gossip<threads, topologies::one_peer>> &&
              !HasSpectralRadius<ring<threads>> && !HasSpectralRadius<solo>);

namespace {

template <class R, class Real>
void mix(const R& r, std::vector<Real>& x, std::int64_t round) {
  std::vector<std::byte> scratch(r.template scratch<Real>(x.size()));
  r.mix(
      bucket_view<Real, cpu, 0>{
          nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}},
      step_info{.round = round}, cpu::stream{});
}

template <class Real>
std::vector<Real> noise(int rank, std::size_t n) {
  random_sequence random(11, purpose::test, static_cast<std::uint64_t>(rank), n);
  std::vector<Real> x(n);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  return x;
}

}  // namespace

TEST_CASE(
    "gossip keeps the laws of mixing on every topology and every number of ranks that it serves") {
  for_each_topology([](const auto& topology, int ranks) {
    CAPTURE(topology.describe());
    CHECK(gossip_laws(topology, {.ranks = {ranks}}) == "");
  });
}

TEST_CASE("gossip: ranks that agree keep their bits for thousands of rounds") {
  for (const auto& x : on_ranks(3, [](threads comm) {
         auto x = noise<float>(0, 13);
         for (int round = 0; round < 3000; ++round) mix(gossip{comm}, x, round);
         return x;
       }))
    CHECK(same_bits(x, noise<float>(0, 13)));
}

TEST_CASE("gossip: the result does not depend on timing") {
  const auto run = [](int microseconds) {
    return on_ranks(8, [&](threads comm) {
      auto x = noise<float>(comm.rank(), 501);
      const delayed_comm late{comm, 1e12,
                              std::chrono::microseconds(comm.rank() * microseconds % 700)};
      for (int round = 0; round < 5; ++round)
        mix(gossip{late, topologies::exponential{}}, x, round);
      return x;
    });
  };
  const auto first = run(0);
  for (const int microseconds : {133, 577})
    for (const auto& [a, b] : {std::pair{run(microseconds), first}})
      for (std::size_t r = 0; r < 8; ++r) CHECK(same_bits(a[r], b[r]));
}

TEST_CASE("gossip: describes its topology and spectral gap, and refuses numbers of ranks at once") {
  on_ranks(8, [](threads comm) {
    CHECK(gossip{comm}.describe() == "gossip over 8 ranks, ring: spectral gap 0.195262 a round");
    CHECK(contains(gossip{comm, topologies::lazy{topologies::hypercube{}, 0.5}}.describe(),
                   "lazy hypercube (theta 0.5): spectral gap 0.25"));
    return 0;
  });
  on_ranks(6, [](threads comm) {
    CHECK(contains(error_message([&] {
                     (void)gossip{comm, topologies::hypercube{}}.scratch<float>(5);
                   }),
                   "power of two"));
    CHECK(contains(error_message([&] {
                     (void)gossip{comm, topologies::xor_matching{}}.spectral_radius({});
                   }),
                   "power of two"));
    CHECK(contains(
        error_message([&] {
          (void)gossip{comm, topologies::adjacency::metropolis({{1}, {0}})}.scratch<float>(5);
        }),
        "made for 2 ranks, and the run has 6"));
    return 0;
  });
}

TEST_CASE("gossip: remedies are computed numbers") {
  on_ranks(8, [](threads comm) {
    const auto remedies = gossip{comm, topologies::exponential{}}.remedies({0.9, false});
    std::string all;
    for (const std::string& s : remedies) all += s + "; ";
    CAPTURE(all);
    CHECK(contains(all, "a momentum below 0.519816"));
    CHECK(contains(all, "theta below 0.0470"));
    CHECK(contains(all, "Nesterov's form, whose radius is 0.989891"));
    CHECK(contains(all, "symmetric_exponential, whose radius is 0.948683"));
    CHECK(gossip{comm}.spectral_radius({0.9, false}) < 1);
    return 0;
  });
}

TEST_CASE("gossip: consensus_distance is the root mean square over ranks") {
  for (const int ranks : rank_counts)
    for (
        const double d : on_ranks(ranks, [&](threads comm) {
          std::vector<double> x{1.0 * comm.rank(), 5, 7 - 2.0 * comm.rank()};
          return consensus_distance(comm, cpu{1}, span_on<double, cpu>{x.data(), 3}, cpu::stream{});
        }))
      // ranks 0 .. p-1 have the variance (p^2 - 1) / 12
      CHECK(close(d, std::sqrt(5 * (ranks * ranks - 1) / 12.0), 1e-14));
}
