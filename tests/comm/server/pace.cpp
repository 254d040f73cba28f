// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// By scripted arrivals: nothing here depends on time.
#include <doctest/doctest.h>

#include <cordee/comm/server/pace.hpp>

using namespace cordee;
using cordee::detail::pace;

namespace {

using ranks = std::vector<int>;
using counts = std::vector<std::int64_t>;

ranks answers(pace& p) {
  ranks all;
  for (int rank; (rank = p.answer()) >= 0;) all.push_back(rank);
  return all;
}
// A pace at which `n` workers have begun.
pace begun(int n, const asynchronous& how) {
  pace p(n, how);
  for (int rank = 0; rank < n; ++rank) p.greet(rank);
  CHECK(answers(p).size() == static_cast<std::size_t>(n));
  return p;
}
// Each in turn pushes; who is answered after each.
std::vector<ranks> script(pace& p, const ranks& arrivals) {
  std::vector<ranks> all;
  for (const int rank : arrivals) {
    p.push(rank);
    p.updates();
    all.push_back(answers(p));
  }
  return all;
}

}  // namespace

TEST_CASE("pace: nobody is told anything before all have greeted") {
  pace p(3, {});
  CHECK(p.due().empty());
  p.greet(2);
  CHECK(answers(p).empty());
  CHECK(p.due() == ranks{0, 1});
  p.greet(0);
  CHECK(p.due() == ranks{1});
  CHECK(answers(p).empty());
  p.greet(1);
  CHECK(answers(p) == ranks{2, 0, 1});
  CHECK(p.due().empty());
}

TEST_CASE("pace: unlimited, each push is an update and is answered at once; staleness is counted") {
  pace p = begun(3, {});
  CHECK(p.batch() == 1);
  CHECK(script(p, {0, 1, 2, 1, 1, 0}) == std::vector<ranks>{{0}, {1}, {2}, {1}, {1}, {0}});
  // versions 0 1 2 3 4 5 before; told 0 0 0 2 4 1
  CHECK(p.staleness() == counts{2, 2, 1, 0, 1});
  CHECK(p.version() == 6);
  CHECK(p.due().empty());
}

TEST_CASE("pace: n-softsync makes an update of every floor(ranks / n) pushes, whoever's they are") {
  for (const auto& [n, batch] : {std::pair{1, 5}, {2, 2}, {3, 1}, {5, 1}, {9, 1}})
    CHECK(begun(5, {.softsync = n}).batch() == batch);
  pace p = begun(4, {.softsync = 2});
  for (const int rank : {0, 0, 0, 1, 3, 2}) {
    p.push(rank);
    p.updates();
    CHECK(answers(p) == ranks{rank});
  }
  CHECK(p.version() == 3);
  // versions 0 0 1 1 2 2 before; told 0 0 1 0 0 0
  CHECK(p.staleness() == counts{3, 1, 2});
}

TEST_CASE("pace: who is more than `bound` steps ahead of the slowest waits for it") {
  pace p = begun(3, {.bound = 1});
  CHECK(script(p, {1, 1}) == std::vector<ranks>{{1}, {}});
  CHECK(p.due() == ranks{0, 2});
  CHECK(script(p, {2}) == std::vector<ranks>{{2}});
  CHECK(p.due() == ranks{0});
  CHECK(script(p, {2}) == std::vector<ranks>{{}});
  CHECK(p.describe() == "the parameter server, version 4, rank 1, rank 2 ahead and waiting");
  REQUIRE(p.heard().size() == 2);  // rank 0 has pushed nothing
  CHECK(p.heard()[1].line() == "2 2-2 its push 2");
  CHECK(script(p, {0}) == std::vector<ranks>{{1, 2, 0}});  // in the order in which they came
  CHECK(p.due().empty());
}

TEST_CASE("pace: a bound of 0 is lockstep") {
  pace p = begun(3, {.softsync = 1, .bound = 0});
  for (int round = 0; round < 3; ++round)
    CHECK(script(p, {2, 0, 1}) == std::vector<ranks>{{}, {}, {2, 0, 1}});
  CHECK(p.version() == 3);
  CHECK(p.staleness() == counts{9});
}

TEST_CASE("pace: a push counts 1 / max(1, staleness) where staleness is minded") {
  pace p = begun(2, {.staleness_aware = true}), careless = begun(2, {});
  for (const auto& [rank, share] :
       {std::pair{0, 1.0}, {0, 1.0}, {0, 1.0}, {0, 1.0}, {1, 0.25}, {0, 1.0}, {1, 1.0}}) {
    CHECK(p.push(rank) == share);
    CHECK(careless.push(rank) == 1);
    for (pace* each : {&p, &careless}) {
      each->updates();
      CHECK(answers(*each) == ranks{rank});
    }
  }
}

TEST_CASE("pace: nobody waits for one that has left, and when rank 0 has, all others are due") {
  pace p = begun(3, {.bound = 0});
  CHECK(script(p, {1, 2}) == std::vector<ranks>{{}, {}});
  p.leave(0);
  CHECK(answers(p) == ranks{1, 2});
  CHECK(p.due() == ranks{1, 2});
  p.leave(2);
  CHECK(p.due() == ranks{1});
  CHECK_FALSE(p.over());
  p.leave(1);
  CHECK(p.over());
}

TEST_CASE("pace: greeted again, all begin anew") {
  pace p = begun(2, {});
  script(p, {0, 0, 1});
  p.greet(1);
  CHECK(p.due() == ranks{0});
  p.greet(0);
  CHECK(answers(p) == ranks{1, 0});
  CHECK(p.version() == 0);
  CHECK(p.staleness().empty());
}

TEST_CASE("pace: what makes no sense is refused") {
  CHECK_THROWS_AS(pace(2, {.softsync = 0}), misuse);
  CHECK_THROWS_AS(pace(2, {.bound = -1}), misuse);
}
