// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/wire.hpp>
#include <cordee/testing/counted.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

// One link adds on arrival, the other takes the path over scratch.
static_assert(AddsOn<threads, float, cpu> && !AddsOn<counted<threads>, float, cpu>);

namespace {

constexpr std::size_t n = 997, cut_at = 498;  // two blocks: [0, 498) and [498, 997)

double number(int rank, std::size_t i) { return (rank + 1.0) * static_cast<double>(i + 1); }

// x of both ranks after f(wire, peer).
template <class Real, class F>
auto hopped(bool adds_on_arrival, const F& f) {
  return on_ranks(2, [&](threads link) {
    std::vector<Real> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<Real>(number(link.rank(), i));
    std::vector<std::byte> scratch(n * sizeof(Real));
    const auto over = [&](const auto& l) {
      plain_wire wire(l, span_on<Real, cpu>{x.data(), n},
                      span_on<std::byte, cpu>{scratch.data(), scratch.size()}, 2, cpu::stream{});
      f(wire, link.rank(), 1 - link.rank());
    };
    traffic sent;
    if (adds_on_arrival)
      over(link);
    else
      over(counted{link, &sent});
    return x;
  });
}

double sum_at(std::size_t i) { return number(0, i) + number(1, i); }

}  // namespace

TEST_CASE("blocks: they follow one another to the end, and differ by one number at most") {
  for (const int count : {1, 2, 3, 7, 16})
    for (const std::size_t numbers : {0u, 1u, 2u, 5u, 7u, 16u, 997u}) {
      CHECK(block_start(numbers, 0, count) == 0);
      CHECK(block_start(numbers, count, count) == numbers);
      for (int i = 0; i < count; ++i) {
        const std::size_t size =
            block_start(numbers, i + 1, count) - block_start(numbers, i, count);
        CHECK(size - numbers / static_cast<std::size_t>(count) <= 1);
      }
    }
}

TEST_CASE_TEMPLATE("wire: ranks that tell each other the same block both end with the sum", Real,
                   float, double) {
  for (const bool on_arrival : {true, false})
    for (int again = 0; again < 20; ++again)
      for (const auto& x : hopped<Real>(on_arrival, [](auto& wire, int, int peer) {
             wire.add(peer, {0, 2}, peer, {0, 2});
             wire.open();
           }))
        for (std::size_t i = 0; i < n; ++i) REQUIRE(static_cast<double>(x[i]) == sum_at(i));
}

TEST_CASE("wire: halves are told and added to one another, divided by their owner and passed on") {
  for (const bool on_arrival : {true, false}) {
    const auto halves = [](int rank) {
      return std::pair{blocks{rank, rank + 1}, blocks{1 - rank, 2 - rank}};  // mine, the peer's
    };
    const auto added = hopped<float>(on_arrival, [&](auto& wire, int rank, int peer) {
      const auto [mine, theirs] = halves(rank);
      wire.add(peer, theirs, peer, mine);
      wire.open();
    });
    for (int r = 0; r < 2; ++r)
      for (std::size_t i = 0; i < n; ++i)
        REQUIRE(static_cast<double>(added[static_cast<std::size_t>(r)][i]) ==
                ((i < cut_at) == (r == 0) ? sum_at(i) : number(r, i)));

    for (const auto& x : hopped<float>(on_arrival, [&](auto& wire, int rank, int peer) {
           const auto [mine, theirs] = halves(rank);
           wire.add(peer, theirs, peer, mine);
           wire.finish(mine, 2);
           wire.pass(peer, mine, peer, theirs);
           wire.open();
         }))
      for (std::size_t i = 0; i < n; ++i) REQUIRE(static_cast<double>(x[i]) == sum_at(i) / 2);
  }
}

TEST_CASE("wire: one way only, the teller keeps its own and the hearer adds it") {
  for (const bool on_arrival : {true, false}) {
    const auto by_rank = hopped<float>(on_arrival, [](auto& wire, int rank, int) {
      if (rank == 0)
        wire.add(1, {0, 2}, nobody, {0, 2});
      else
        wire.add(nobody, {0, 2}, 0, {0, 2});
      wire.open();
    });
    for (std::size_t i = 0; i < n; ++i) {
      REQUIRE(static_cast<double>(by_rank[0][i]) == number(0, i));
      REQUIRE(static_cast<double>(by_rank[1][i]) == sum_at(i));
    }
  }
}

TEST_CASE("wire: a sum stands when it is told, passed on, or divided in part") {
  constexpr blocks all{0, 2};
  for (const bool on_arrival : {true, false}) {
    // Rank 1 has heard all of rank 0, and goes on with on_1(wire), rank 0 with on_0(wire).
    const auto after = [&](const auto& on_1, const auto& on_0) {
      return hopped<float>(on_arrival, [&](auto& wire, int rank, int) {
        if (rank == 0) {
          wire.add(1, all, nobody, all);
          on_0(wire);
        } else {
          wire.add(nobody, all, 0, all);
          on_1(wire);
        }
        wire.open();
      });
    };
    const auto told = after([&](auto& wire) { wire.add(0, all, nobody, all); },
                            [&](auto& wire) { wire.add(nobody, all, 1, all); });
    const auto passed = after([&](auto& wire) { wire.pass(0, all, nobody, all); },
                              [&](auto& wire) { wire.pass(nobody, all, 1, all); });
    const auto halved = after([](auto& wire) { wire.finish({0, 1}, 2); }, [](auto&) {});
    for (std::size_t i = 0; i < n; ++i) {
      REQUIRE(static_cast<double>(told[0][i]) == number(0, i) + sum_at(i));
      REQUIRE(static_cast<double>(passed[0][i]) == sum_at(i));
      REQUIRE(static_cast<double>(halved[1][i]) == (i < cut_at ? sum_at(i) / 2 : sum_at(i)));
    }
  }
}
