// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Scripted arrivals: nothing depends on time.
#include <random>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/server/staleness_clock.hpp>

using namespace cordee;
using cordee::detail::comm::staleness_clock;

namespace {

using ranks = std::vector<int>;
using counts = std::vector<std::int64_t>;

ranks ready_ranks(staleness_clock& c) {
  ranks ready;
  for (int rank; (rank = c.pop_ready()) >= 0;) ready.push_back(rank);
  return ready;
}
// A clock of n workers that have joined.
staleness_clock joined(int n, const asynchronous& options) {
  staleness_clock c(n, options);
  for (int rank = 0; rank < n; ++rank) c.join(rank);
  CHECK(ready_ranks(c).size() == static_cast<std::size_t>(n));
  return c;
}
// These ranks push in turn; returns the ranks that are ready after each.
std::vector<ranks> script(staleness_clock& c, const ranks& arrivals) {
  std::vector<ranks> ready;
  for (const int rank : arrivals) {
    c.push(rank);
    c.completes_update();
    ready.push_back(ready_ranks(c));
  }
  return ready;
}

}  // namespace

TEST_CASE("staleness_clock: no rank is ready before all have joined") {
  staleness_clock p(3, {});
  CHECK(p.due().empty());
  p.join(2);
  CHECK(ready_ranks(p).empty());
  CHECK(p.due() == ranks{0, 1});
  p.join(0);
  CHECK(p.due() == ranks{1});
  CHECK(ready_ranks(p).empty());
  p.join(1);
  CHECK(ready_ranks(p) == ranks{2, 0, 1});
  CHECK(p.due().empty());
}

TEST_CASE(
    "staleness_clock: unlimited, each push is an update and is replied to at once; staleness is "
    "counted") {
  staleness_clock p = joined(3, {});
  CHECK(p.batch() == 1);
  CHECK(script(p, {0, 1, 2, 1, 1, 0}) == std::vector<ranks>{{0}, {1}, {2}, {1}, {1}, {0}});
  // versions 0 1 2 3 4 5 before; received 0 0 0 2 4 1
  CHECK(p.staleness() == counts{2, 2, 1, 0, 1});
  CHECK(p.version() == 6);
  CHECK(p.due().empty());
}

TEST_CASE(
    "staleness_clock: n-softsync makes an update of every floor(ranks / n) pushes of any ranks") {
  for (const auto& [n, batch] : {std::pair{1, 5}, {2, 2}, {3, 1}, {5, 1}, {9, 1}})
    CHECK(joined(5, {.softsync = n}).batch() == batch);
  staleness_clock p = joined(4, {.softsync = 2});
  for (const int rank : {0, 0, 0, 1, 3, 2}) {
    p.push(rank);
    p.completes_update();
    CHECK(ready_ranks(p) == ranks{rank});
  }
  CHECK(p.version() == 3);
  // versions 0 0 1 1 2 2 before; received 0 0 1 0 0 0
  CHECK(p.staleness() == counts{3, 1, 2});
}

TEST_CASE(
    "staleness_clock: a rank more than staleness_bound steps ahead of the slowest waits for it") {
  staleness_clock p = joined(3, {.staleness_bound = 1});
  CHECK(script(p, {1, 1}) == std::vector<ranks>{{1}, {}});
  CHECK(p.due() == ranks{0, 2});
  CHECK(script(p, {2}) == std::vector<ranks>{{2}});
  CHECK(p.due() == ranks{0});
  CHECK(script(p, {2}) == std::vector<ranks>{{}});
  CHECK(p.describe() == "the parameter server, version 4, rank 1, rank 2 ahead and waiting");
  REQUIRE(p.completed().size() == 2);  // rank 0 has pushed nothing
  CHECK(p.completed()[1].serialize() == "2 2-2 its push 2");
  CHECK(script(p, {0}) == std::vector<ranks>{{1, 2, 0}});  // in the order of their requests
  CHECK(p.due().empty());
}

TEST_CASE("staleness_clock: a staleness_bound of 0 is lockstep") {
  staleness_clock p = joined(3, {.softsync = 1, .staleness_bound = 0});
  for (int round = 0; round < 3; ++round)
    CHECK(script(p, {2, 0, 1}) == std::vector<ranks>{{}, {}, {2, 0, 1}});
  CHECK(p.version() == 3);
  CHECK(p.staleness() == counts{9});
}

TEST_CASE("staleness_clock: no push is older than (p - 1) (2 bound + 1) versions, and one may be") {
  for (int p : {2, 3, 5})
    for (int bound : {0, 1, 2, 4}) {
      // Workers that may push, in a random order: the bound holds.
      std::minstd_rand random(7);
      staleness_clock any = joined(p, {.staleness_bound = bound});
      std::vector<bool> works(static_cast<std::size_t>(p), true);
      for (int k = 0; k < 2000; ++k) {
        ranks ready;
        for (int rank = 0; rank < p; ++rank)
          if (works[static_cast<std::size_t>(rank)]) ready.push_back(rank);
        REQUIRE_FALSE(ready.empty());
        const int rank = ready[random() % ready.size()];
        works[static_cast<std::size_t>(rank)] = false;
        const std::vector<ranks> replies = script(any, {rank});
        for (const int next : replies[0]) works[static_cast<std::size_t>(next)] = true;
      }
      const auto worst = static_cast<std::size_t>((p - 1) * (2 * bound + 1));
      CHECK(any.staleness().size() <= 1 + worst);

      // Rank 0 pulls while it is `bound` ahead of all others, which then overtake it: attained.
      staleness_clock c = joined(p, {.staleness_bound = bound});
      for (int k = 0; k < bound; ++k) script(c, {0});
      for (int k = 0; k < 2 * bound + 1; ++k)
        for (int rank = 1; rank < p; ++rank) script(c, {rank});
      script(c, {0});
      REQUIRE(c.staleness().size() == 1 + worst);
      CHECK(c.staleness()[worst] == 1);
    }
}

TEST_CASE("staleness_clock: staleness_aware multiplies a push by 1 / max(1, staleness)") {
  staleness_clock aware = joined(2, {.staleness_aware = true}), unaware = joined(2, {});
  for (const auto& [rank, factor] :
       {std::pair{0, 1.0}, {0, 1.0}, {0, 1.0}, {0, 1.0}, {1, 0.25}, {0, 1.0}, {1, 1.0}}) {
    CHECK(aware.push(rank) == factor);
    CHECK(unaware.push(rank) == 1);
    for (staleness_clock* each : {&aware, &unaware}) {
      each->completes_update();
      CHECK(ready_ranks(*each) == ranks{rank});
    }
  }
}

TEST_CASE(
    "staleness_clock: no rank waits for one that has left; when rank 0 has left, all others are "
    "due") {
  staleness_clock p = joined(3, {.staleness_bound = 0});
  CHECK(script(p, {1, 2}) == std::vector<ranks>{{}, {}});
  p.leave(0);
  CHECK(ready_ranks(p) == ranks{1, 2});
  CHECK(p.due() == ranks{1, 2});
  p.leave(2);
  CHECK(p.due() == ranks{1});
  CHECK_FALSE(p.all_left());
  p.leave(1);
  CHECK(p.all_left());
}

TEST_CASE("staleness_clock: when all join again, versions begin at 0") {
  staleness_clock p = joined(2, {});
  script(p, {0, 0, 1});
  p.join(1);
  CHECK(p.due() == ranks{0});
  p.join(0);
  CHECK(ready_ranks(p) == ranks{1, 0});
  CHECK(p.version() == 0);
  CHECK(p.staleness().empty());
}

TEST_CASE("staleness_clock: a clock that got another's counters goes on as that one") {
  const asynchronous options{.softsync = 1, .staleness_bound = 2, .staleness_aware = true};
  staleness_clock first = joined(3, options), second = joined(3, options);
  script(first, {0, 1, 0, 2, 1});
  // Version 1 after three pushes, two of the next; rank 0's second reply has it, as the later ones.
  CHECK(first.counters() == counts{1, 2, 2, 1, 2, 1, 1, 1, 3, 2});
  second.restore(first.counters());
  CHECK(second.counters() == first.counters());
  CHECK(script(second, {0, 0, 2, 1, 2}) == script(first, {0, 0, 2, 1, 2}));
  CHECK(second.counters() == first.counters());
  CHECK(second.staleness() == first.staleness());
  CHECK_THROWS_AS(second.restore(counts{1, 2, 3}), error);
}

TEST_CASE("staleness_clock: refuses softsync below 1 and a negative staleness_bound") {
  CHECK_THROWS_AS(staleness_clock(2, {.softsync = 0}), usage_error);
  CHECK_THROWS_AS(staleness_clock(2, {.staleness_bound = -1}), usage_error);
}
