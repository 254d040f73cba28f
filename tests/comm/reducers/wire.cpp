// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/wire.hpp>
#include <cordee/testing/counting_communicator.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

// Both paths are tested: fused add, and receiving into scratch.
static_assert(FusedAddOn<threads, float, cpu> &&
              !FusedAddOn<counting_communicator<threads>, float, cpu>);

namespace {

constexpr std::size_t n = 997, middle = 498;  // two chunks: [0, 498) and [498, 997)

double number(int rank, std::size_t i) { return (rank + 1.0) * static_cast<double>(i + 1); }

// x of both ranks after f(wire, rank, peer).
template <class Real, class F>
auto after_hops(bool fused_add, const F& f) {
  return on_ranks(2, [&](threads comm) {
    std::vector<Real> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<Real>(number(comm.rank(), i));
    std::vector<std::byte> scratch(n * sizeof(Real));
    const auto run = [&](const auto& communicator) {
      detail::comm::plain_wire wire(communicator, span_on<Real, cpu>{x.data(), n},
                                    span_on<std::byte, cpu>{scratch.data(), scratch.size()}, 2,
                                    cpu::stream{});
      f(wire, comm.rank(), 1 - comm.rank());
    };
    traffic sent;
    if (fused_add)
      run(comm);
    else
      run(counting_communicator{comm, &sent});
    return x;
  });
}

double sum_at(std::size_t i) { return number(0, i) + number(1, i); }

}  // namespace

TEST_CASE("chunk_start: chunks cover the message, and their sizes differ by one at most") {
  for (const int count : {1, 2, 3, 7, 16})
    for (const std::size_t numbers : {0u, 1u, 2u, 5u, 7u, 16u, 997u}) {
      CHECK(chunk_start(numbers, 0, count) == 0);
      CHECK(chunk_start(numbers, count, count) == numbers);
      for (int i = 0; i < count; ++i) {
        const std::size_t size =
            chunk_start(numbers, i + 1, count) - chunk_start(numbers, i, count);
        CHECK(size - numbers / static_cast<std::size_t>(count) <= 1);
      }
    }
}

TEST_CASE_TEMPLATE("plain_wire: ranks that exchange the same chunk both end with the sum", Real,
                   float, double) {
  for (const bool fused_add : {true, false})
    for (int repetition = 0; repetition < 20; ++repetition)
      for (const auto& x : after_hops<Real>(fused_add, [](auto& wire, int, int peer) {
             wire.add(peer, {0, 2}, peer, {0, 2});
             wire.flush();
           }))
        for (std::size_t i = 0; i < n; ++i) REQUIRE(static_cast<double>(x[i]) == sum_at(i));
}

TEST_CASE("plain_wire: halves are reduce-scattered, divided by their owner and gathered") {
  for (const bool fused_add : {true, false}) {
    const auto halves = [](int rank) {
      return std::pair{chunk_range{rank, rank + 1}, chunk_range{1 - rank, 2 - rank}};
    };
    const auto added = after_hops<float>(fused_add, [&](auto& wire, int rank, int peer) {
      const auto [own, other] = halves(rank);
      wire.add(peer, other, peer, own);
      wire.flush();
    });
    for (int r = 0; r < 2; ++r)
      for (std::size_t i = 0; i < n; ++i)
        REQUIRE(static_cast<double>(added[static_cast<std::size_t>(r)][i]) ==
                ((i < middle) == (r == 0) ? sum_at(i) : number(r, i)));

    for (const auto& x : after_hops<float>(fused_add, [&](auto& wire, int rank, int peer) {
           const auto [own, other] = halves(rank);
           wire.add(peer, other, peer, own);
           wire.average(own, 2);
           wire.pass(peer, own, peer, other);
           wire.flush();
         }))
      for (std::size_t i = 0; i < n; ++i) REQUIRE(static_cast<double>(x[i]) == sum_at(i) / 2);
  }
}

TEST_CASE(
    "plain_wire: one direction, the sender's numbers are kept and the receiver's become the sum") {
  for (const bool fused_add : {true, false}) {
    const auto by_rank = after_hops<float>(fused_add, [](auto& wire, int rank, int) {
      if (rank == 0)
        wire.add(1, {0, 2}, no_peer, {0, 2});
      else
        wire.add(no_peer, {0, 2}, 0, {0, 2});
      wire.flush();
    });
    for (std::size_t i = 0; i < n; ++i) {
      REQUIRE(static_cast<double>(by_rank[0][i]) == number(0, i));
      REQUIRE(static_cast<double>(by_rank[1][i]) == sum_at(i));
    }
  }
}

TEST_CASE("plain_wire: a pending sum is added before it is sent, passed on, or divided in part") {
  constexpr chunk_range message{0, 2};
  for (const bool fused_add : {true, false}) {
    // Rank 1 receives rank 0's numbers, then calls on_1(wire), rank 0 on_0(wire).
    const auto after = [&](const auto& on_1, const auto& on_0) {
      return after_hops<float>(fused_add, [&](auto& wire, int rank, int) {
        if (rank == 0) {
          wire.add(1, message, no_peer, message);
          on_0(wire);
        } else {
          wire.add(no_peer, message, 0, message);
          on_1(wire);
        }
        wire.flush();
      });
    };
    const auto sent = after([&](auto& wire) { wire.add(0, message, no_peer, message); },
                            [&](auto& wire) { wire.add(no_peer, message, 1, message); });
    const auto passed = after([&](auto& wire) { wire.pass(0, message, no_peer, message); },
                              [&](auto& wire) { wire.pass(no_peer, message, 1, message); });
    const auto halved = after([](auto& wire) { wire.average({0, 1}, 2); }, [](auto&) {});
    for (std::size_t i = 0; i < n; ++i) {
      REQUIRE(static_cast<double>(sent[0][i]) == number(0, i) + sum_at(i));
      REQUIRE(static_cast<double>(passed[0][i]) == sum_at(i));
      REQUIRE(static_cast<double>(halved[1][i]) == (i < middle ? sum_at(i) / 2 : sum_at(i)));
    }
  }
}
