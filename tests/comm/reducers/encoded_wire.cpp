// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/encoded_wire.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/testing/counting_communicator.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using detail::comm::encoded_scratch, detail::comm::encoded_wire;

namespace {

// What a rank holds after a mean.
struct result {
  std::vector<double> mean, lost;
  traffic sent;
};

// Two ranks, two chunks: reduce-scatter, division and all-gather of x, with so much less scratch.
template <Precision P>
std::deque<result> mean_of(const std::array<std::vector<double>, 2>& x,
                           const bucket* layout = nullptr, std::size_t missing_scratch = 0) {
  return on_ranks(2, [&](threads comm) {
    const int r = comm.rank(), peer = 1 - r;
    result l{x[static_cast<std::size_t>(r)], {}, {}};
    l.lost.resize(l.mean.size());
    const std::size_t n = l.mean.size();
    std::vector<std::byte> scratch(encoded_scratch<P>(n, 2) - missing_scratch);
    const counting_communicator counting{comm, &l.sent};
    encoded_wire<P, counting_communicator<threads>, double, cpu> wire(
        counting, layout, {l.mean.data(), n}, {scratch.data(), scratch.size()}, {l.lost.data(), n},
        2, cpu::stream{});
    const chunk_range own{r, r + 1}, other{peer, peer + 1};
    wire.add(peer, other, peer, own);
    wire.average(own, 2);
    wire.pass(peer, own, peer, other);
    wire.flush();
    return l;
  });
}

std::vector<double> thirds(std::size_t n, double size) {
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = size * std::sin(1.0 + static_cast<double>(i)) / 3;
  return x;
}

}  // namespace

TEST_CASE("encoded_wire: numbers that P represents have an exact mean and no loss") {
  const auto by_rank = mean_of<fp16>({std::vector<double>{1, 2, -3, 4, 500}, {3, 0, 1, -8, 1500}});
  for (const result& l : by_rank) {
    CHECK(l.mean == std::vector<double>{2, 1, -1, -2, 1000});
    CHECK(l.lost == std::vector<double>(5));
  }
}

TEST_CASE("encoded_wire: all ranks end with the same bits, and mean and losses add up to the sum") {
  for (const std::size_t n : {1u, 2u, 5u, 301u}) {
    const std::array x{thirds(n, 1), thirds(n, -7)};
    const auto by_rank = mean_of<fp16>(x);
    CHECK(by_rank[0].mean == by_rank[1].mean);
    double most_lost = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double lost = by_rank[0].lost[i] + by_rank[1].lost[i];
      REQUIRE(close(2 * by_rank[0].mean[i] + lost, x[0][i] + x[1][i], 1e-14));
      most_lost = std::max(most_lost, std::abs(lost));
    }
    CHECK(most_lost > 1e-5);
    CHECK(most_lost < 1e-2);
  }
}

TEST_CASE("encoded_wire: ranks that exchange the same chunk add their own encoded numbers") {
  constexpr std::size_t n = 33;
  for (const int holders : {1, 4}) {
    const auto by_rank = on_ranks(2, [&](threads comm) {
      result l{thirds(n, comm.rank() + 1.0), std::vector<double>(n), {}};
      std::vector<std::byte> scratch(encoded_scratch<fp16>(n, 1));
      encoded_wire<fp16, threads, double, cpu> wire(comm, nullptr, {l.mean.data(), n},
                                                    {scratch.data(), scratch.size()},
                                                    {l.lost.data(), n}, 1, cpu::stream{});
      const int peer = 1 - comm.rank();
      wire.add(peer, {0, 1}, peer, {0, 1}, holders);
      return l;
    });
    CHECK(by_rank[0].mean == by_rank[1].mean);
    for (std::size_t i = 0; i < n; ++i)  // each of the holders records its share of the loss
      REQUIRE(close(by_rank[0].mean[i] + holders * (by_rank[0].lost[i] + by_rank[1].lost[i]),
                    thirds(n, 3)[i], 1e-14));
  }
}

TEST_CASE("encoded_wire: each segment has a scale of its own in each chunk") {
  // Chunks begin at 0 and 96: "a" is in both, "b" in the second.
  constexpr std::array<segment, 2> table{segment{"a", kind::weight, 64, 100},
                                         segment{"b", kind::weight, 192, 50}};
  const bucket layout{0, 64, 192, table, 0};
  std::vector<double> x(192);
  for (std::size_t i = 0; i < 100; ++i) x[i] = 1e-9 * thirds(100, 1)[i];
  for (std::size_t i = 128; i < 178; ++i) x[i] = 1e9 * thirds(50, 1)[i - 128];
  const auto by_rank = mean_of<fp16>({x, x}, &layout);
  for (const result& l : by_rank)
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(std::abs(l.mean[i] - x[i]) <= 0.002 * (i < 128 ? 1e-9 : 1e9) / 3);
  // One partial sum and one mean: chunks 0 and 1 with one and two scales of four bytes.
  for (const result& l : by_rank) {
    CHECK(l.sent.messages == 2);
    CHECK(l.sent.bytes == 2 * 192 + 3 * 4);
  }
  // fp32 has no scales.
  CHECK(mean_of<fp32>({x, x}, &layout)[0].sent.bytes == 4 * 192);
}

TEST_CASE("encoded_wire: scratch that is too short by a byte is a usage_error") {
  const std::vector<double> x(40, 1.0);
  const auto thrown_with = [&](std::size_t bytes) {
    return error_message([&] {
      mean_of<fp16>({x, x}, nullptr, encoded_scratch<fp16>(40, 2) - bytes);
    });
  };
  // The sent and the received message: 40 halves and two scales each.
  CHECK(thrown_with(2 * (40 * 2 + 2 * 4)) == "");
  CHECK(contains(thrown_with(2 * (40 * 2 + 2 * 4) - 1), "encoded_wire: scratch is too short"));
}
