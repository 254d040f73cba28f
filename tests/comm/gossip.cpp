// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include <doctest/doctest.h>

#include <cordee/comm/consensus.hpp>
#include <cordee/comm/gossip.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/core/random.hpp>

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

// Every rank after one mixing, by rank.
template <class G, class Make>
auto mixed(const G& graph, int ranks, std::int64_t round, const Make& make) {
  return on_ranks(ranks, [&](threads link) {
    auto x = make(link.rank());
    mix(gossip{link, graph}, x, round);
    return x;
  });
}

}  // namespace

TEST_CASE("gossip: mixing unit vectors recovers the matrix that the graph declares") {
  with_graphs([](const auto& graph, int ranks) {
    CAPTURE(graph.describe());
    CAPTURE(ranks);
    const auto p = static_cast<std::size_t>(ranks);
    for (const std::int64_t round : {0, 1, 2, 5}) {
      const auto columns = mixed(graph, ranks, round, [&](int rank) {
        std::vector<double> unit(p);
        unit[static_cast<std::size_t>(rank)] = 1;
        return unit;
      });
      const matrix w = matrix_of(graph, ranks, round);
      for (std::size_t i = 0; i < p; ++i)
        for (std::size_t j = 0; j < p; ++j) REQUIRE(std::abs(columns[i][j] - w[i][j]) < 1e-15);
    }
  });
}

TEST_CASE_TEMPLATE("gossip: any length is mixed whole, and the mean of the ranks stays", Real,
                   float, double) {
  const double tolerance = sizeof(Real) == 4 ? 2e-6 : 1e-14;
  const std::array few{2, 5, 8};
  with_graphs(
      [&](const auto& graph, int ranks) {
        CAPTURE(graph.describe());
        CAPTURE(ranks);
        for (const std::size_t n : {0u, 1u, 7u, 997u, 1024u, 4099u}) {
          CAPTURE(n);
          std::vector<std::vector<Real>> start;
          for (int r = 0; r < ranks; ++r) start.push_back(noise<Real>(r, n));
          const auto after =
              mixed(graph, ranks, 1, [&](int r) { return start[static_cast<std::size_t>(r)]; });
          const matrix w = matrix_of(graph, ranks, 1);
          for (std::size_t k = 0; k<n; k += n> 100 ? 41 : 1) {
            double before = 0, now = 0;
            for (std::size_t i = 0; i < after.size(); ++i) {
              double expected = 0;
              for (std::size_t j = 0; j < after.size(); ++j)
                expected += w[i][j] * static_cast<double>(start[j][k]);
              REQUIRE(close(static_cast<double>(after[i][k]), expected, tolerance));
              before += static_cast<double>(start[i][k]);
              now += static_cast<double>(after[i][k]);
            }
            REQUIRE(close(now, before, tolerance * ranks));
          }
        }
      },
      few);
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

TEST_CASE("gossip: consensus decays at the spectral rate") {
  const std::array some{4, 5, 8, 9};
  with_graphs(
      [](const auto& graph, int ranks) {
        const double rho = 1 - spectral_gap(graph, ranks);
        // A random graph keeps its rate in the mean only; an exact mean leaves nothing to measure.
        const int period = graph.period(ranks);
        if (period == 0 || rho < 1e-6) return;
        CAPTURE(graph.describe());
        CAPTURE(ranks);
        CAPTURE(rho);
        // From 1e-3 of the start, where one mode is left, to 1e-10, which rounding does not reach.
        const auto rounds_to = [&](double size) {
          return static_cast<int>(std::log(size) / std::log(rho) / period + 1) * period;
        };
        const int from = rounds_to(1e-3), to = rounds_to(1e-10);
        const auto rates = on_ranks(ranks, [&](threads link) {
          auto x = noise<double>(link.rank(), 64);
          const auto distance = [&] {
            return consensus_distance(link, cpu{1}, span_on<double, cpu>{x.data(), x.size()},
                                      cpu::stream{});
          };
          double early = 0;
          for (int round = 0; round < to; ++round) {
            if (round == from) early = distance();
            mix(gossip{link, graph}, x, round);
          }
          return std::pow(distance() / early, 1.0 / (to - from));
        });
        for (const double rate : rates) {
          CHECK(rate == rates[0]);
          CHECK(std::abs(rate - rho) < 0.01 * rho);
        }
      },
      some);
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
