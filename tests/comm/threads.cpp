// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/comm/threads.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using namespace std::chrono_literals;

static_assert(TransportOn<threads, cpu>);
static_assert(AddsOn<threads, float, cpu>);
static_assert(Abandons<threads> && AnySource<threads>);

namespace {

template <class T>
to<cpu> send(int peer, std::vector<T>& what) {
  return {peer, const_bytes(span_on<T, cpu>{what.data(), what.size()})};
}
template <class T>
from<cpu> receive(int peer, std::vector<T>& what) {
  return {peer, bytes(span_on<T, cpu>{what.data(), what.size()})};
}
template <class Link>
void exchange(const Link& link, std::vector<to<cpu>> out, std::vector<from<cpu>> in) {
  link.exchange(std::span<const to<cpu>>(out), std::span<const from<cpu>>(in), cpu::stream{});
}

}  // namespace

TEST_CASE("all-to-all: every rank hears every rank, itself included") {
  for (const int ranks : rank_counts)
    for (const std::size_t n : {0u, 1u, 7u, 1000u}) {
      CAPTURE(ranks);
      CAPTURE(n);
      on_ranks(ranks, [&](threads link) {
        std::vector<int> mine(n, link.rank());
        std::vector<std::vector<int>> heard(static_cast<std::size_t>(ranks),
                                            std::vector<int>(n, -1));
        std::vector<to<cpu>> out;
        std::vector<from<cpu>> in;
        for (int peer = 0; peer < ranks; ++peer) {
          out.push_back(send(peer, mine));
          in.push_back(
              receive(ranks - 1 - peer, heard[static_cast<std::size_t>(ranks - 1 - peer)]));
        }
        exchange(link, out, in);
        for (int peer = 0; peer < ranks; ++peer)
          CHECK(heard[static_cast<std::size_t>(peer)] == std::vector<int>(n, peer));
        return 0;
      });
    }
}

TEST_CASE("messages between a pair keep their order within a lane, and lanes do not mix") {
  on_ranks(2, [](threads link) {
    const int peer = 1 - link.rank();
    const threads other = link.lane(1);
    std::vector<int> a{1}, b{2}, c{3}, x(1), y(1), z(1);
    std::thread beside([&] { exchange(other, {send(peer, c)}, {receive(peer, z)}); });
    exchange(link, {send(peer, a), send(peer, b)}, {receive(peer, x), receive(peer, y)});
    beside.join();
    CHECK(x[0] == 1);
    CHECK(y[0] == 2);
    CHECK(z[0] == 3);
    return 0;
  });
}

TEST_CASE("a message on a lane is heard on that lane alone") {
  // Rank 0 says 1 on lane 1 first, then 0 on lane 0; rank 1 listens in the other order.
  on_ranks(2, [](threads link) {
    std::vector<int> zero{0}, one{1}, x{-1}, y{-1};
    if (link.rank() == 0) {
      std::thread beside([&] { exchange(link.lane(1), {send(1, one)}, {}); });
      std::this_thread::sleep_for(100ms);  // were there but one lane, this message would be first
      exchange(link, {send(1, zero)}, {});
      beside.join();
    } else {
      exchange(link, {}, {receive(0, x)});
      exchange(link.lane(1), {}, {receive(0, y)});
      CHECK(x[0] == 0);
      CHECK(y[0] == 1);
    }
    return 0;
  });
}

TEST_CASE_TEMPLATE("exchange_add adds what arrives to what is there", Real, float, double) {
  for (const int ranks : {1, 2, 3, 5})
    on_ranks(ranks, [&](threads link) {
      std::vector<Real> mine(33, static_cast<Real>(link.rank())), total(33, Real{100});
      std::vector<to<cpu>> out;
      std::vector<from<cpu>> in;
      for (int peer = 0; peer < ranks; ++peer) {
        out.push_back(send(peer, mine));
        in.push_back(receive(peer, total));
      }
      link.template exchange_add<Real>(std::span<const to<cpu>>(out),
                                       std::span<const from<cpu>>(in), cpu::stream{});
      CHECK(total == std::vector<Real>(33, static_cast<Real>(100 + ranks * (ranks - 1) / 2)));
      return 0;
    });
}

TEST_CASE("a message of another size names both ranks, both sizes and the lane") {
  const std::string said = complaint([] {
    threads::launch(
        2,
        [](threads link) {
          std::vector<std::int32_t> three(3), four(4);
          if (link.rank() == 0) exchange(link, {send(1, three)}, {});
          if (link.rank() == 1) exchange(link, {}, {receive(0, four)});
        },
        patient);
  });
  CHECK(contains(said, "rank 1 expects 16 bytes from rank 0 on lane 0, which sends 12"));
}

TEST_CASE("the first failure is thrown, and what the others see is an echo of it") {
  std::vector<std::string> echoes(5);
  const std::string said = complaint([&] {
    threads::launch(
        5,
        [&](threads link) {
          std::vector<int> x(1);
          if (link.rank() == 3) throw std::runtime_error("rank three's own words");
          try {
            exchange(link, {}, {receive(3, x)});
          } catch (const error& e) {
            echoes[static_cast<std::size_t>(link.rank())] = e.what();
            throw;
          }
        },
        patient);
  });
  CHECK(said == "rank 3: rank three's own words");
  for (const std::size_t r : {0u, 1u, 2u, 4u})
    CHECK(echoes[r] == text("rank ", r, " gave up: rank 3: rank three's own words"));
}

TEST_CASE("what is not a std::exception still ends the run") {
  const std::string said = complaint([] {
    threads::launch(
        2,
        [](threads link) {
          if (link.rank() == 1) throw 7;
        },
        patient);
  });
  CHECK(contains(said, "rank 1: threw something"));
}

TEST_CASE("no wait outlasts the deadline, for a receiver and for a sender") {
  for (const bool sends : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    crevasse deep;
    const std::string said = complaint([&] {
      threads::launch(2,
                      [&](threads link) {
                        std::vector<int> x(4);
                        if (link.rank() == 1) return deep.fall();
                        deep.beside([&] {
                          if (sends)
                            exchange(link, {send(1, x)}, {});
                          else
                            exchange(link, {}, {receive(1, x)});
                        });
                      },
                      {.deadline = 1000ms});
    });
    CHECK(contains(said, sends ? "rank 0 waited 1000 ms for rank 1 to take 16 bytes on lane 0"
                               : "rank 0 waited 1000 ms for rank 1 to send 16 bytes on lane 0"));
    CHECK(std::chrono::steady_clock::now() - start < 20s);
  }
}

TEST_CASE("who hears something need not wait until a short word of its own is heard") {
  on_ranks(2, [](threads link) {
    std::vector<int> first{1}, second{2}, own{3}, x(1), y(1);
    if (link.rank() == 0) {  // were it to wait, rank 1 would never get to listen
      exchange(link, {send(1, first), send(0, own)}, {receive(0, x)});
      first[0] = 7;  // and its memory is its own again
      exchange(link.lane(1), {send(1, second)}, {});
    } else {
      exchange(link.lane(1), {}, {receive(0, x)});
      exchange(link, {}, {receive(0, y)});
      CHECK(x[0] == 2);
      CHECK(y[0] == 1);
    }
    return 0;
  });
}

TEST_CASE("who goes on speaking to a rank that does not listen is stopped at the deadline") {
  crevasse deep;
  const std::string said = complaint([&] {
    threads::launch(2,
                    [&](threads link) {
                      std::vector<int> word(1), own(1);
                      if (link.rank() == 1) return deep.fall();
                      deep.beside([&] {
                        for (int k = 0; k < 1000; ++k)
                          exchange(link, {send(1, word), send(0, own)}, {receive(0, own)});
                      });
                    },
                    {.deadline = 1000ms});
  });
  CHECK(contains(said, "rank 0 waited 1000 ms for rank 1 to take 4 bytes on lane 0"));
}

TEST_CASE("a rank that waits itself is not to blame: the one at the end of the chain is named") {
  crevasse deep;
  const std::string said = complaint([&] {
    threads::launch(3,
                    [&](threads link) {
                      std::vector<int> x(1);
                      if (link.rank() == 2) return deep.fall();
                      // Rank 1 waits for rank 2, but it has come late: rank 0 loses patience first.
                      if (link.rank() == 1) std::this_thread::sleep_for(500ms);
                      deep.beside([&] { exchange(link, {}, {receive(link.rank() + 1, x)}); });
                    },
                    {.deadline = 3000ms});
  });
  const std::string first = said.substr(0, said.find('\n'));
  CHECK(contains(first, "waited 3000 ms for rank "));
  CHECK(contains(first, "for rank 2 to "));
  CHECK(contains(said, "\n  look first at rank 2: no word of a wait from there"));
}

TEST_CASE("who waits for a mean over shared memory names every rank that does not bring its part") {
  crevasse deep;
  const std::string said = complaint([&] {
    threads::launch(4,
                    [&](threads link) {
                      float x = 0;
                      if (link.rank() > 1) return deep.fall();
                      deep.beside([&] { link.mean(span_on<float, cpu>{&x, 1}, cpu::stream{}); });
                    },
                    {.deadline = 2000ms});
  });
  CHECK(contains(said, "waited 2000 ms for rank 2, rank 3 to bring 4 bytes on lane 0"));
}

TEST_CASE("a word that was never heard ends the run with an error") {
  const std::string said = complaint([] {
    threads::launch(
        2,
        [](threads link) {
          std::vector<int> word(3), own(1);
          if (link.rank() == 0)
            exchange(link.lane(2), {send(1, word), send(0, own)}, {receive(0, own)});
        },
        patient);
  });
  CHECK(contains(said, "rank 0 said 12 bytes to rank 1 on lane 2"));
}

TEST_CASE("long and short messages between a pair keep their order") {
  on_ranks(2, [](threads link) {
    const int peer = 1 - link.rank();
    std::vector<std::vector<int>> said, heard;
    std::vector<to<cpu>> out;
    std::vector<from<cpu>> in;
    for (int k = 0; k < 40; ++k) {  // more than a mailbox has room for
      const std::size_t n = k % 3 == 1 ? 5000 : 5;
      said.emplace_back(n, k);
      heard.emplace_back(n, -1);
    }
    for (auto& x : said) out.push_back(send(peer, x));
    for (auto& x : heard) in.push_back(receive(peer, x));
    exchange(link, out, in);
    CHECK(said == heard);
    return 0;
  });
}

TEST_CASE("whoever waits for a rank that has returned is told so at once") {
  const auto start = std::chrono::steady_clock::now();
  const std::string said = complaint([] {
    threads::launch(
        3,
        [](threads link) {
          std::vector<int> x(1);
          if (link.rank() != 2) exchange(link, {send(2, x)}, {});
        },
        patient);
  });
  CHECK(contains(said, "rank 2 has left the run"));
  CHECK(std::chrono::steady_clock::now() - start < 20s);
}

TEST_CASE("abandon wakes every rank with the cause") {
  const std::string said = complaint([] {
    threads::launch(
        3,
        [](threads link) {
          std::vector<int> x(1);
          if (link.rank() == 0) return link.abandon("the user changed their mind");
          exchange(link, {}, {receive(0, x)});
        },
        patient);
  });
  CHECK(said == "rank 0: the user changed their mind");
}

TEST_CASE("misuse is refused: no ranks, no such lane, no such peer") {
  CHECK_THROWS_AS(threads::launch(0, [](threads) {}), misuse);
  CHECK(contains(complaint([] {
                   threads::launch(
                       1, [](threads l) { (void)l.lane(4); }, patient);
                 }),
                 "no such lane"));
  CHECK(contains(complaint([] {
                   threads::launch(
                       1,
                       [](threads l) {
                         std::vector<int> x(1);
                         exchange(l, {send(1, x)}, {});
                       },
                       patient);
                 }),
                 "no such peer"));
}

TEST_CASE("each rank is entitled to its share of the cores") {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (const int ranks : {1, 2, 8})
    for (const int workers : on_ranks(ranks, [](threads) { return cpu{}.workers(); }))
      CHECK(workers == std::max(1, cores / ranks));
}

TEST_CASE("many small exchanges in a row are neither lost nor reordered") {
  on_ranks(4, [](threads link) {
    const int next = (link.rank() + 1) % 4, before = (link.rank() + 3) % 4;
    std::vector<int> token{link.rank()}, heard(1);
    for (int k = 0; k < 2000; ++k) {
      exchange(link, {send(next, token)}, {receive(before, heard)});
      token = heard;
    }
    CHECK(token[0] == link.rank());  // 2000 is a multiple of 4
    return 0;
  });
}

TEST_CASE("first come, first served, whoever they are") {
  for (const std::vector<int>& order : {std::vector{2, 1, 3}, {3, 2, 1}, {1, 3, 2}})
    on_ranks(4, [&](threads link) {
      const threads requests = link.lane(request_lane), token = link.lane(agree_lane);
      std::vector<int> word{link.rank()}, own(1);
      if (link.rank() == 0) {  // the last one says when all have spoken
        exchange(token, {}, {receive(order.back(), own)});
        for (const int wanted : order) {
          CHECK(requests.next({}) == wanted);
          CHECK(requests.next({}) == wanted);  // as long as it is not heard
          exchange(requests, {}, {receive(wanted, own)});
        }
        return 0;
      }
      const auto at = std::find(order.begin(), order.end(), link.rank());
      if (at != order.begin()) exchange(token, {}, {receive(*(at - 1), own)});
      // Who hears something need not wait until a short word is heard.
      exchange(requests, {send(0, word), send(link.rank(), word)}, {receive(link.rank(), own)});
      exchange(token, {send(at + 1 == order.end() ? 0 : *(at + 1), word)}, {});
      return 0;
    });
}

TEST_CASE("who waits for any source names those that are due, and only them") {
  const std::string said = complaint([] {
    threads::launch(4,
                    [](threads link) {
                      if (link.rank() == 0)
                        return (void)link.lane(request_lane).next(std::array{1, 3});
                      std::vector<int> x(1);
                      if (link.rank() == 2) return;
                      exchange(link, {}, {receive(0, x)});
                    },
                    {.deadline = 1s});
  });
  CHECK(contains(said, "rank 1 or rank 3 to send on lane 2"));
}

TEST_CASE("with nobody due, any source may take longer than the deadline") {
  on_ranks(2,
           [](threads link) {
             std::vector<int> x(1);
             if (link.rank() == 1) std::this_thread::sleep_for(1500ms);
             if (link.rank() == 1) exchange(link.lane(request_lane), {send(0, x)}, {});
             if (link.rank() == 0) {
               CHECK(link.lane(request_lane).next({}) == 1);
               exchange(link.lane(request_lane), {}, {receive(1, x)});
             }
             return 0;
           },
           {.deadline = 1s});
}

TEST_CASE("any source is heard on the request lane alone") {
  on_ranks(2, [](threads link) {
    CHECK_THROWS_AS((void)link.next({}), misuse);
    CHECK_THROWS_AS((void)link.lane(request_lane).next(std::array{2}), misuse);
    return 0;
  });
}
