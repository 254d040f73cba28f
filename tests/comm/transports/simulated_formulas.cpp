// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The reducers that train, on an ideal network, against the closed formulas of the literature:
// time, messages, bytes and reduced bytes of the critical path, and its rounds.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/comm/transports/simulated.hpp>

#include "tests/support/simulated_mean.hpp"

using namespace cordee;
using support::simulated_mean;

namespace {

constexpr link_parameters across{.latency = 5e-6, .bandwidth = 12.5e9},
    inside{.latency = 1e-6, .bandwidth = 150e9};
constexpr double reduction = 1e-11;  // seconds a byte

/// 2 to 64, and around and at powers of two up to 512.
std::vector<int> rank_counts() {
  std::vector<int> p;
  for (int k = 2; k <= 64; ++k) p.push_back(k);
  for (int k = 128; k <= 512; k *= 2)
    for (const int offset : {-1, 0, 1}) p.push_back(k + offset);
  return p;
}

struct formula {
  std::size_t messages, bytes, reduced, rounds;
};

/// n numbers that each method's chunks divide.
std::size_t numbers(int p) {
  return 8 * static_cast<std::size_t>(p) * std::bit_floor(static_cast<std::size_t>(p));
}

/// Checks make(comm) over p ranks against expected(p, bytes of the message).
template <class Make, class Expected>
void check(const std::vector<int>& counts, const Make& make, const Expected& expected) {
  for (const int p : counts) {
    CAPTURE(p);
    const std::size_t n = numbers(p);
    const formula f = expected(static_cast<std::size_t>(p), n * sizeof(float));
    const simulation s = simulated_mean(
        p, n, make, {.network = {.link = across}, .seconds_per_reduced_byte = reduction});
    const double seconds = static_cast<double>(f.messages) * across.latency +
                           static_cast<double>(f.bytes) / across.bandwidth +
                           static_cast<double>(f.reduced) * reduction;
    CHECK(std::abs(s.path.seconds - seconds) <= 1e-9 * seconds);
    CHECK(s.path.messages == f.messages);
    CHECK(s.path.bytes == f.bytes);
    CHECK(s.path.reduced_bytes == f.reduced);
    CHECK(s.rounds == f.rounds);
  }
}

std::size_t log_above(std::size_t p) { return static_cast<std::size_t>(std::bit_width(p - 1)); }
std::size_t log_below(std::size_t p) { return static_cast<std::size_t>(std::bit_width(p)) - 1; }
std::size_t remapped(std::size_t p) { return std::has_single_bit(p) ? 0 : 1; }

/// Seconds of `messages` of `bytes` in all.
double alpha_beta_seconds(link_parameters link, std::size_t messages, std::size_t bytes) {
  return static_cast<double>(messages) * link.latency + static_cast<double>(bytes) / link.bandwidth;
}

void check_ring(const std::vector<int>& counts) {
  check(
      counts, [](auto comm) { return ring{comm}; },
      [](std::size_t p, std::size_t n) {
        const std::size_t hops = p - 1;
        return formula{2 * hops, 2 * hops * n / p, hops * n / p, 2 * hops};
      });
}

void check_tree(const std::vector<int>& counts) {
  check(
      counts, [](auto comm) { return tree{comm}; },
      [](std::size_t p, std::size_t n) {
        const std::size_t k = log_above(p);
        return formula{2 * k, 2 * k * n, k * n, 2 * k};
      });
}

void check_butterfly(const std::vector<int>& counts) {
  check(
      counts, [](auto comm) { return butterfly{comm}; },
      [](std::size_t p, std::size_t n) {
        const std::size_t k = log_below(p), e = remapped(p);
        return formula{k + 2 * e, (k + 2 * e) * n, (k + e) * n, k + 2 * e};
      });
}

void check_halving_doubling(const std::vector<int>& counts) {
  check(
      counts, [](auto comm) { return halving_doubling{comm}; },
      [](std::size_t p, std::size_t n) {
        const std::size_t k = log_below(p), e = remapped(p), q = std::bit_floor(p);
        const std::size_t half = (q - 1) * (n / q);
        return formula{2 * k + 2 * e, 2 * half + 2 * e * n, half + e * n, 2 * k + 2 * e};
      });
}

void check_one_shot(const std::vector<int>& counts) {
  check(
      counts, [](auto comm) { return one_shot{comm}; },
      [](std::size_t p, std::size_t n) {
        return formula{p - 1, (p - 1) * n, (p - 1) * n, 1};
      });
}

void check_two_shot(const std::vector<int>& counts) {
  check(
      counts, [](auto comm) { return two_shot{comm}; },
      [](std::size_t p, std::size_t n) {
        return formula{2 * (p - 1), 2 * (p - 1) * n / p, (p - 1) * n / p, 2};
      });
}

void check_server(const std::vector<int>& counts) {
  check(
      counts, [](auto comm) { return server{comm}; },
      [](std::size_t p, std::size_t n) {
        return formula{2 * (p - 1), 2 * (p - 1) * n, (p - 1) * n, 2 * (p - 1)};
      });
}

}  // namespace

TEST_CASE("simulated ring: 2(p-1) messages of n/p, and p-1 additions") {
  check_ring(rank_counts());
}

TEST_CASE("simulated tree: 2 ceil(log2 p) messages of n, half of them added") {
  check_tree(rank_counts());
}

TEST_CASE(
    "simulated butterfly: log2 p messages of n, half of a tree's; two more if p is no power of "
    "two") {
  check_butterfly(rank_counts());
}

TEST_CASE("simulated halving and doubling: 2 log2 p messages, 2n(p-1)/p bytes") {
  check_halving_doubling(rank_counts());
}

TEST_CASE("simulated one-shot: p-1 messages of n in one round") { check_one_shot(rank_counts()); }

TEST_CASE("simulated two-shot: 2(p-1) messages of n/p in two rounds") {
  check_two_shot(rank_counts());
}

TEST_CASE("simulated server: 2(p-1) messages of n, all of them rank 0's") {
  check_server(rank_counts());
}

TEST_CASE("simulated torus: rings in rows inside of nodes, rings in columns across them") {
  for (const std::size_t y : {1u, 2u, 3u, 8u, 32u})
    for (const std::size_t x : {1u, 2u, 4u, 7u, 32u}) {
      CAPTURE(x);
      CAPTURE(y);
      const std::size_t numbers = 16 * x * y, n = numbers * sizeof(float);
      const std::size_t row = (x - 1) * (n / x), column = (y - 1) * (n / (x * y));
      const simulation s = simulated_mean(
          static_cast<int>(x * y), numbers,
          [&](auto comm) {
            return torus_ring{comm, static_cast<int>(y)};
          },
          {.network = {.link = across, .inside = inside, .ranks_per_node = static_cast<int>(x)},
           .seconds_per_reduced_byte = reduction});
      const double seconds = alpha_beta_seconds(inside, 2 * (x - 1), 2 * row) +
                             alpha_beta_seconds(across, 2 * (y - 1), 2 * column) +
                             static_cast<double>(row + column) * reduction;
      CHECK(std::abs(s.path.seconds - seconds) <= 1e-9 * seconds);
      CHECK(s.path.messages == 2 * (x + y - 2));
      CHECK(s.path.bytes == 2 * (row + column));
      CHECK(row + column == (x * y - 1) * n / (x * y));  // as in one flat ring
      CHECK(s.rounds == 2 * (x + y - 2));
    }
}

TEST_CASE("simulated hierarchical: trees inside of nodes, a ring across them") {
  for (const std::size_t g : {1u, 2u, 3u, 8u, 32u})
    for (const std::size_t k : {1u, 2u, 4u, 7u, 32u}) {
      CAPTURE(g);
      CAPTURE(k);
      const std::size_t numbers = 16 * g, n = numbers * sizeof(float);
      const std::size_t steps = log_above(k), half_ring = (g - 1) * (n / g);
      const simulation s = simulated_mean(
          static_cast<int>(g * k), numbers,
          [&](auto comm) {
            return hierarchical{comm, nodes{static_cast<int>(k)}};
          },
          {.network = {.link = across, .inside = inside, .ranks_per_node = static_cast<int>(k)},
           .seconds_per_reduced_byte = reduction});
      const double seconds = alpha_beta_seconds(inside, 2 * steps, 2 * steps * n) +
                             alpha_beta_seconds(across, 2 * (g - 1), 2 * half_ring) +
                             static_cast<double>(steps * n + half_ring) * reduction;
      CHECK(std::abs(s.path.seconds - seconds) <= 1e-9 * seconds);
      CHECK(s.path.messages == 2 * steps + 2 * (g - 1));
      CHECK(s.rounds == 2 * steps + 2 * (g - 1));
    }
}

TEST_CASE("simulated double tree: between the bounds of the bandwidth and of its dependencies") {
  constexpr std::size_t n = 1 << 20, chunk = 1 << 12, count = n / 2 / chunk;
  for (const int p : rank_counts()) {
    CAPTURE(p);
    const simulation s = simulated_mean(p, n,
                                        [](auto comm) {
                                          return double_tree{comm, chunk};
                                        },
                                        {.network = {.link = across}});
    const std::size_t levels = log_above(static_cast<std::size_t>(p));
    const double least = alpha_beta_seconds(across, 0, n * sizeof(float)) * 2 * (p - 1) / p;
    // A step has four passes (two trees, up and down), each through at most a tree's levels.
    const std::size_t hops = (count + 2 * levels - 1) * 4 * levels;
    CHECK(s.path.seconds >= least);
    CHECK(s.path.seconds <=
          alpha_beta_seconds(across, hops, hops * chunk * sizeof(float)) * (1 + 1e-9));
    CHECK(s.bytes == 2 * static_cast<std::size_t>(p - 1) * n * sizeof(float));
  }
}

TEST_CASE("simulated ring, tree, butterfly, halving and doubling, server of 1024 ranks and more") {
  const std::vector<int> counts{1023, 1024, 1025, 1000, 4096};
  check_ring(counts);
  check_tree(counts);
  check_butterfly(counts);
  check_halving_doubling(counts);
  check_server(counts);
}

TEST_CASE("simulated one-shot and two-shot of 1024 ranks and more") {
  check_one_shot({1023, 1024, 1025});
  check_two_shot({1000, 1024, 1025});
}

TEST_CASE("simulated: two runs have the same times, and counts do not depend on the network") {
  const auto run = [](link_parameters link) {
    return simulated_mean(12, 1000,
                          [](auto comm) {
                            return double_tree{comm, 100};
                          },
                          {.network = {.link = link}});
  };
  const simulation a = run(across), b = run(across), c = run(inside);
  CHECK(a.path.seconds == b.path.seconds);
  CHECK(a.messages == c.messages);
  CHECK(a.bytes == c.bytes);
  CHECK(a.path.seconds > c.path.seconds);
}
