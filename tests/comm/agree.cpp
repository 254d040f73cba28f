// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <doctest/doctest.h>

#include <cordee/comm/agree.hpp>
#include <cordee/comm/solo.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("agree joins in the order of ranks: the same bits everywhere, whatever the numbers") {
  for (const int ranks : rank_counts) {
    double expected = 0.1;  // 0.1, then thirds whose sum depends on the order
    for (int r = 1; r < ranks; ++r) expected += 0.1 + r / 3.0 * 1e10;
    for (const double x : on_ranks(ranks, [&](threads link) {
           std::array v{0.1 + link.rank() / 3.0 * 1e10};
           agree(link, v, sum{});
           return v[0];
         }))
      CHECK(x == expected);
  }
}

TEST_CASE("agree: minimum and maximum, and NaN is never lost") {
  for (const int ranks : rank_counts)
    on_ranks(ranks, [&](threads link) {
      std::array low{1.0 * link.rank(), -1.0 * link.rank()}, high = low;
      agree(link, low, minimum{});
      agree(link, high, maximum{});
      CHECK(low == std::array{0.0, -1.0 * (ranks - 1)});
      CHECK(high == std::array{1.0 * (ranks - 1), 0.0});
      for (const int bad : {0, ranks - 1}) {
        std::array x{link.rank() == bad ? std::nan("") : 1.0}, y = x, z = x;
        agree(link, x, sum{});
        agree(link, y, minimum{});
        agree(link, z, maximum{});
        CHECK((std::isnan(x[0]) && std::isnan(y[0]) && std::isnan(z[0])));
      }
      return 0;
    });
}

TEST_CASE("agree does not disturb what travels on the reducer's lane") {
  on_ranks(3, [](threads link) {
    std::vector<float> x(999, static_cast<float>(link.rank()));
    std::vector<std::byte> scratch(ring{link}.scratch<float>(x.size()));
    std::thread courier([&] {
      for (int k = 0; k < 50; ++k)
        ring{link}.mix(
            message<float, cpu, 0>{
                nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}},
            moment{}, cpu::stream{});
    });
    for (int k = 0; k < 50; ++k) {
      std::array v{1.0 * k};
      agree(link, v, sum{});
      CHECK(v[0] == 3.0 * k);
    }
    courier.join();
    CHECK(x[500] == 1);
    return 0;
  });
}

TEST_CASE_TEMPLATE("mean and share leave the same bits on every rank", Real, float, double) {
  for (const int ranks : rank_counts) {
    const auto by_rank = on_ranks(ranks, [&](threads link) {
      std::vector<Real> x(101, static_cast<Real>(ranks * link.rank())),
          y(7, static_cast<Real>(3 + link.rank()));
      mean(link, cpu{1}, span_on<Real, cpu>{x.data(), x.size()}, cpu::stream{});
      share(link, span_on<Real, cpu>{y.data(), y.size()}, cpu::stream{});
      CHECK(y == std::vector<Real>(7, Real{3}));
      return x;
    });
    for (const auto& x : by_rank)
      CHECK(x == std::vector<Real>(101, static_cast<Real>(ranks * (ranks - 1) / 2)));
  }
}

TEST_CASE("agrees_everywhere sees one differing bit on one rank, high or low") {
  for (const int ranks : {2, 3, 8})
    for (const std::uint64_t bit : {0ull, 1ull, 1ull << 31, 1ull << 32, 1ull << 63})
      for (const bool same : on_ranks(ranks, [&](threads link) {
             return agrees_everywhere(link,
                                      0x123456789abcdef0ull ^ (link.rank() == ranks - 1 ? bit : 0));
           }))
        CHECK(same == (bit == 0));
}

TEST_CASE("alone, everything is agreed already") {
  std::array v{5.0};
  agree(alone{}, v, sum{});
  CHECK(v[0] == 5);
  std::array<float, 3> x{1, 2, 3}, y{};
  mean(alone{}, cpu{1}, span_on<float, cpu>{x.data(), 3}, cpu::stream{});
  share(alone{}, span_on<float, cpu>{x.data(), 3}, cpu::stream{});
  CHECK(x == std::array<float, 3>{1, 2, 3});
  const std::array out{to<cpu>{0, const_bytes(span_on<float, cpu>{x.data(), 3})}};
  const std::array in{from<cpu>{0, bytes(span_on<float, cpu>{y.data(), 3})}};
  alone{}.exchange(std::span<const to<cpu>>(out), std::span<const from<cpu>>(in), cpu::stream{});
  CHECK(y == x);
  CHECK_THROWS_AS(
      alone{}.exchange(std::span<const to<cpu>>(out), std::span<const from<cpu>>(), cpu::stream{}),
      misuse);
}
