// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads.hpp>

#include "tests/support/exchange.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

static_assert(TransportOn<threads, cpu>);
static_assert(FusedAddOn<threads, float, cpu>);
static_assert(Abortable<threads> && AnySource<threads>);

TEST_CASE("threads: an all-to-all exchange delivers from every rank, itself included") {
  for (const int ranks : rank_counts)
    for (const std::size_t n : {0u, 1u, 7u, 1000u}) {
      CAPTURE(ranks);
      CAPTURE(n);
      on_ranks(ranks, [&](threads comm) {
        std::vector<int> own(n, comm.rank());
        std::vector<std::vector<int>> received(static_cast<std::size_t>(ranks),
                                               std::vector<int>(n, -1));
        std::vector<send_op<cpu>> out;
        std::vector<recv_op<cpu>> in;
        for (int peer = 0; peer < ranks; ++peer) {
          out.push_back(send(peer, own));
          in.push_back(
              receive(ranks - 1 - peer, received[static_cast<std::size_t>(ranks - 1 - peer)]));
        }
        exchange(comm, out, in);
        for (int peer = 0; peer < ranks; ++peer)
          CHECK(received[static_cast<std::size_t>(peer)] == std::vector<int>(n, peer));
        return 0;
      });
    }
}

TEST_CASE(
    "threads: messages between a pair keep their order within a context, and contexts do not mix") {
  on_ranks(2, [](threads comm) {
    const int peer = 1 - comm.rank();
    const threads other = comm.duplicate(1);
    std::vector<int> a{1}, b{2}, c{3}, x(1), y(1), z(1);
    std::thread other_thread([&] { exchange(other, {send(peer, c)}, {receive(peer, z)}); });
    exchange(comm, {send(peer, a), send(peer, b)}, {receive(peer, x), receive(peer, y)});
    other_thread.join();
    CHECK(x[0] == 1);
    CHECK(y[0] == 2);
    CHECK(z[0] == 3);
    return 0;
  });
}

TEST_CASE("threads: a message is received on its context only") {
  // Rank 0 sends 1 on context 1 first, then 0 on context 0; rank 1 receives in the other order.
  on_ranks(2, [](threads comm) {
    std::vector<int> zero{0}, one{1}, x{-1}, y{-1};
    if (comm.rank() == 0) {
      std::thread other_thread([&] { exchange(comm.duplicate(1), {send(1, one)}, {}); });
      std::this_thread::sleep_for(100ms);  // with a single context this message would be first
      exchange(comm, {send(1, zero)}, {});
      other_thread.join();
    } else {
      exchange(comm, {}, {receive(0, x)});
      exchange(comm.duplicate(1), {}, {receive(0, y)});
      CHECK(x[0] == 0);
      CHECK(y[0] == 1);
    }
    return 0;
  });
}

TEST_CASE_TEMPLATE("threads: exchange_add adds what arrives to the receive buffers", Real, float,
                   double) {
  for (const int ranks : {1, 2, 3, 5})
    on_ranks(ranks, [&](threads comm) {
      std::vector<Real> mine(33, static_cast<Real>(comm.rank())), total(33, Real{100});
      std::vector<send_op<cpu>> out;
      std::vector<recv_op<cpu>> in;
      for (int peer = 0; peer < ranks; ++peer) {
        out.push_back(send(peer, mine));
        in.push_back(receive(peer, total));
      }
      comm.template exchange_add<Real>(std::span<const send_op<cpu>>(out),
                                       std::span<const recv_op<cpu>>(in), cpu::stream{});
      CHECK(total == std::vector<Real>(33, static_cast<Real>(100 + ranks * (ranks - 1) / 2)));
      return 0;
    });
}

TEST_CASE("threads: a short send beside a receive does not wait until it is consumed") {
  on_ranks(2, [](threads comm) {
    std::vector<int> first{1}, second{2}, own{3}, x(1), y(1);
    if (comm.rank() == 0) {  // waiting here would be a deadlock
      exchange(comm, {send(1, first), send(0, own)}, {receive(0, x)});
      first[0] = 7;  // the send buffer may be reused
      exchange(comm.duplicate(1), {send(1, second)}, {});
    } else {
      exchange(comm.duplicate(1), {}, {receive(0, x)});
      exchange(comm, {}, {receive(0, y)});
      CHECK(x[0] == 2);
      CHECK(y[0] == 1);
    }
    return 0;
  });
}

TEST_CASE("threads: long and short messages between a pair keep their order") {
  on_ranks(2, [](threads comm) {
    const int peer = 1 - comm.rank();
    std::vector<std::vector<int>> sent, received;
    std::vector<send_op<cpu>> out;
    std::vector<recv_op<cpu>> in;
    for (int k = 0; k < 40; ++k) {  // more than the capacity of a queue
      const std::size_t n = k % 3 == 1 ? 5000 : 5;
      sent.emplace_back(n, k);
      received.emplace_back(n, -1);
    }
    for (auto& x : sent) out.push_back(send(peer, x));
    for (auto& x : received) in.push_back(receive(peer, x));
    exchange(comm, out, in);
    CHECK(sent == received);
    return 0;
  });
}

TEST_CASE("threads: each rank has its share of the cores") {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (const int ranks : {1, 2, 8})
    for (const int workers : on_ranks(ranks, [](threads) { return cpu{}.workers(); }))
      CHECK(workers == std::max(1, cores / ranks));
}

TEST_CASE("threads: many small exchanges are neither lost nor reordered") {
  on_ranks(4, [](threads comm) {
    const int next = (comm.rank() + 1) % 4, before = (comm.rank() + 3) % 4;
    std::vector<int> token{comm.rank()}, received(1);
    for (int k = 0; k < 2000; ++k) {
      exchange(comm, {send(next, token)}, {receive(before, received)});
      token = received;
    }
    CHECK(token[0] == comm.rank());  // 2000 is a multiple of 4
    return 0;
  });
}

TEST_CASE("threads: probe_any returns senders in the order of arrival") {
  for (const std::vector<int>& order : {std::vector{2, 1, 3}, {3, 2, 1}, {1, 3, 2}})
    on_ranks(4, [&](threads comm) {
      const threads requests = comm.duplicate(request_context),
                    token = comm.duplicate(agreement_context);
      std::vector<int> data{comm.rank()}, own(1);
      if (comm.rank() == 0) {  // the last one signals that all have sent
        exchange(token, {}, {receive(order.back(), own)});
        for (const int expected : order) {
          CHECK(requests.probe_any({}) == expected);
          CHECK(requests.probe_any({}) == expected);  // until it is received
          exchange(requests, {}, {receive(expected, own)});
        }
        return 0;
      }
      const auto at = std::find(order.begin(), order.end(), comm.rank());
      if (at != order.begin()) exchange(token, {}, {receive(*(at - 1), own)});
      // With a receive in the same call, the short send does not block.
      exchange(requests, {send(0, data), send(comm.rank(), data)}, {receive(comm.rank(), own)});
      exchange(token, {send(at + 1 == order.end() ? 0 : *(at + 1), data)}, {});
      return 0;
    });
}

TEST_CASE("threads: probe_any without expected ranks has no deadline") {
  on_ranks(2,
           [](threads comm) {
             std::vector<int> x(1);
             if (comm.rank() == 1) std::this_thread::sleep_for(1500ms);
             if (comm.rank() == 1) exchange(comm.duplicate(request_context), {send(0, x)}, {});
             if (comm.rank() == 0) {
               CHECK(comm.duplicate(request_context).probe_any({}) == 1);
               exchange(comm.duplicate(request_context), {}, {receive(1, x)});
             }
             return 0;
           },
           {.deadline = 1s});
}
