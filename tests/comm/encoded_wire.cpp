// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/encoded_wire.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/testing/counted.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// Two ranks, two blocks: each adds up its own, divides it, and passes it on.
struct left {
  std::vector<double> mean, lost;
  traffic sent;
};

template <Precision P>
std::deque<left> halved(const std::array<std::vector<double>, 2>& of, const bucket* which = nullptr,
                        std::size_t too_short = 0) {
  return on_ranks(2, [&](threads link) {
    const int r = link.rank(), peer = 1 - r;
    left l{of[static_cast<std::size_t>(r)], {}, {}};
    l.lost.resize(l.mean.size());
    const std::size_t n = l.mean.size();
    std::vector<std::byte> scratch(encoded_scratch<P>(n, 2) - too_short);
    const counted over{link, &l.sent};
    encoded_wire<P, counted<threads>, double, cpu> wire(over, which, {l.mean.data(), n},
                                                        {scratch.data(), scratch.size()},
                                                        {l.lost.data(), n}, 2, cpu::stream{});
    const blocks mine{r, r + 1}, theirs{peer, peer + 1};
    wire.add(peer, theirs, peer, mine);
    wire.finish(mine, 2);
    wire.pass(peer, mine, peer, theirs);
    wire.open();
    return l;
  });
}

std::vector<double> thirds(std::size_t n, double size) {
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = size * std::sin(1.0 + static_cast<double>(i)) / 3;
  return x;
}

}  // namespace

TEST_CASE(
    "encoded wire: numbers that are exact in the narrow precision are exact, and none is lost") {
  const auto by_rank = halved<fp16>({std::vector<double>{1, 2, -3, 4, 500}, {3, 0, 1, -8, 1500}});
  for (const left& l : by_rank) {
    CHECK(l.mean == std::vector<double>{2, 1, -1, -2, 1000});
    CHECK(l.lost == std::vector<double>(5));
  }
}

TEST_CASE("encoded wire: all end with the same bits, and sum and losses make up what was said") {
  for (const std::size_t n : {1u, 2u, 5u, 301u}) {
    const std::array of{thirds(n, 1), thirds(n, -7)};
    const auto by_rank = halved<fp16>(of);
    CHECK(by_rank[0].mean == by_rank[1].mean);
    double most_lost = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double lost = by_rank[0].lost[i] + by_rank[1].lost[i];
      REQUIRE(close(2 * by_rank[0].mean[i] + lost, of[0][i] + of[1][i], 1e-14));
      most_lost = std::max(most_lost, std::abs(lost));
    }
    CHECK(most_lost > 1e-5);
    CHECK(most_lost < 1e-2);
  }
}

TEST_CASE(
    "encoded wire: ranks that tell each other the same block add what was said of their own") {
  constexpr std::size_t n = 33;
  for (const int holders : {1, 4}) {
    const auto by_rank = on_ranks(2, [&](threads link) {
      left l{thirds(n, link.rank() + 1.0), std::vector<double>(n), {}};
      std::vector<std::byte> scratch(encoded_scratch<fp16>(n, 1));
      encoded_wire<fp16, threads, double, cpu> wire(link, nullptr, {l.mean.data(), n},
                                                    {scratch.data(), scratch.size()},
                                                    {l.lost.data(), n}, 1, cpu::stream{});
      const int peer = 1 - link.rank();
      wire.add(peer, {0, 1}, peer, {0, 1}, holders);
      return l;
    });
    CHECK(by_rank[0].mean == by_rank[1].mean);
    for (std::size_t i = 0; i < n; ++i)  // each of the holders keeps its share of the loss
      REQUIRE(close(by_rank[0].mean[i] + holders * (by_rank[0].lost[i] + by_rank[1].lost[i]),
                    thirds(n, 3)[i], 1e-14));
  }
}

TEST_CASE("encoded wire: a scale for what each segment has of a block") {
  // Blocks begin at 0 and 96: "a" is in both, "b" in the second.
  constexpr std::array<segment, 2> table{segment{"a", kind::weight, 64, 100},
                                         segment{"b", kind::weight, 192, 50}};
  const bucket which{0, 64, 192, table, 0};
  std::vector<double> x(192);
  for (std::size_t i = 0; i < 100; ++i) x[i] = 1e-9 * thirds(100, 1)[i];
  for (std::size_t i = 128; i < 178; ++i) x[i] = 1e9 * thirds(50, 1)[i - 128];
  const auto by_rank = halved<fp16>({x, x}, &which);
  for (const left& l : by_rank)
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(std::abs(l.mean[i] - x[i]) <= 0.002 * (i < 128 ? 1e-9 : 1e9) / 3);
  // One half and one mean: blocks 0 and 1 with one and two scales of four bytes.
  for (const left& l : by_rank) {
    CHECK(l.sent.messages == 2);
    CHECK(l.sent.bytes == 2 * 192 + 3 * 4);
  }
  // What has no scale travels without one.
  CHECK(halved<fp32>({x, x}, &which)[0].sent.bytes == 4 * 192);
}

TEST_CASE("encoded wire: scratch that is too short by a byte is the caller's mistake") {
  const std::vector<double> x(40, 1.0);
  const auto with = [&](std::size_t bytes) {
    return complaint([&] { halved<fp16>({x, x}, nullptr, encoded_scratch<fp16>(40, 2) - bytes); });
  };
  // What is said and what is heard: 40 halves and two scales each.
  CHECK(with(2 * (40 * 2 + 2 * 4)) == "");
  CHECK(contains(with(2 * (40 * 2 + 2 * 4) - 1), "encoded_wire: scratch is too short"));
}
