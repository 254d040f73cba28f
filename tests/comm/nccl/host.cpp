// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What passes between a host and its guests; and what guests hear of those who are none.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/nccl/guest.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::guest, detail::host, detail::line, detail::greeting, detail::frame;
using support::complaint, support::contains;

namespace {

constexpr std::uint64_t run = 7;

line arrived(const host& at, int rank, int size, std::uint64_t of = run) {
  return guest::arrive({"127.0.0.1"}, at.port(), {of, rank, size});
}
// What a guest hears within ten seconds.
std::string cause(guest& g) {
  for (int k = 0; k < 10'000 && !g.first.happened(); ++k) {
    g.attend();
    std::this_thread::sleep_for(1ms);
  }
  return g.first.happened() ? g.first.cause() : "";
}

}  // namespace

TEST_CASE("host: everybody's words reach everybody, by rank, round after round") {
  const host at(3, 0, run, 10s);
  std::vector<std::thread> team;
  std::vector<std::vector<std::string>> heard(3);
  for (int rank = 0; rank < 3; ++rank)
    team.emplace_back([&, rank] {
      guest g({rank, 3}, arrived(at, rank, 3));
      const auto once = g.gather(text("I am ", rank), 10s);
      heard[static_cast<std::size_t>(rank)] = g.gather(once.at(2) + once.at(0), 10s);
      g.leave();
    });
  for (std::thread& t : team) t.join();
  for (const auto& all : heard) CHECK(all == std::vector<std::string>(3, "I am 2I am 0"));
}

TEST_CASE("host: who fails, who leaves and who dies is told to all, and the first failure counts") {
  const host at(3, 0, run, 10s);
  guest a({0, 3}, arrived(at, 0, 3)), b({1, 3}, arrived(at, 1, 3));
  {
    guest c({2, 3}, arrived(at, 2, 3));
    c.leave();
    while (!b.has_left(2)) b.attend();
  }
  CHECK(b.absent() == "rank 0, rank 1");
  b.fail("its own words", true);
  b.fail("more words");
  CHECK(cause(a) == "rank 1: its own words");
  CHECK(a.first.stalled());

  const host other(2, 0, run, 10s);
  guest d({0, 2}, arrived(other, 0, 2));
  arrived(other, 1, 2).hang_up();
  CHECK(contains(cause(d), "rank 1: its process has ended without a word"));
}

TEST_CASE("host: a guest whose host has died says so") {
  auto at = std::make_unique<host>(2, 0, run, 10s);
  guest g({1, 2}, arrived(*at, 1, 2));
  at.reset();
  CHECK(contains(cause(g), "rank 0: its process has ended without a word"));
}

TEST_CASE(
    "host: another number of ranks and a rank that is taken are refused, and all hear of it") {
  for (const greeting& wrong : {greeting{run, 1, 3}, greeting{run, 0, 2}, greeting{run, 5, 2}}) {
    const host at(2, 0, run, 10s);
    guest g({0, 2}, arrived(at, 0, 2));
    const std::string said = complaint([&] { arrived(at, wrong.rank, wrong.size); });
    CHECK(contains(said, wrong.rank == 0 ? "two processes say that they are rank 0 of 2"
                                         : "but rank 0 says that it is rank 0 of 2"));
    CHECK(cause(g) == said);
    if (wrong.rank == 0) continue;
    guest late({1, 2}, arrived(at, 1, 2));
    CHECK(cause(late) == said);
  }
}

TEST_CASE("host: a run that is complete goes on, whatever stranger comes to its port") {
  const host at(2, 0, run, 10s);
  guest a({0, 2}, arrived(at, 0, 2)), b({1, 2}, arrived(at, 1, 2));
  CHECK(contains(complaint([&] { arrived(at, 1, 4); }), "it says that it is rank 1 of 4"));
  CHECK(contains(complaint([&] { arrived(at, 1, 2); }), "say that they are rank 1 of 2"));
  b.leave();  // what the host had to say before, it has said
  for (int k = 0; k < 10'000 && !a.has_left(1); ++k) {
    a.attend();
    std::this_thread::sleep_for(1ms);
  }
  CHECK(a.has_left(1));
  CHECK_FALSE(a.first.happened());
}

TEST_CASE("host: a guest of another run is not answered") {
  const host at(2, 0, run, 10s);
  CHECK(arrived(at, 1, 2, run + 1).over());
  CHECK_FALSE(arrived(at, 1, 2).over());
}

TEST_CASE("host: who does not come is named") {
  const host at(4, 0, run, 2000ms);
  guest a({0, 4}, arrived(at, 0, 4)), c({2, 4}, arrived(at, 2, 4));
  const std::string said = complaint([&] { c.gather("here", 10s); });
  CHECK(
      contains(said, "rank 2 gave up: rank 0: waited 2000 ms for rank 1, rank 3 to come to port"));
}
