// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Meetings of threads, each with a meeting point of its own, and strangers that call there.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/bootstrap/meeting.hpp>

#include "tests/comm/transports/bootstrap/processes_that_meet.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

namespace {

// "0 of 2: 1 3 at node:7", or the error, of one process; the coordinator is published as such.
std::string met(process& p, int smallest, std::chrono::milliseconds window,
                const failed_worlds& failed = {}, std::chrono::milliseconds deadline = {}) {
  try {
    meeting m(p.point, p.self, smallest, failed);
    const next_world w = m.agree(window, std::max(window, deadline));
    if (!w.server) meeting::publish(p.point, p.self, w.next, {7, "s", {"node"}});
    std::string text = concat(w.rank, " of ", w.next.members.size(), ":");
    for (const member& x : w.next.members) text += concat(" ", x.id);
    if (w.server) text += concat(" at ", w.server->hosts.front(), ":", w.server->port);
    std::this_thread::sleep_for(100ms);  // the others receive it before this end is closed
    return text;
  } catch (const error& e) {
    return e.what();
  }
}
std::vector<std::string> met_by(std::vector<process>& all, const std::vector<std::size_t>& present,
                                int smallest = 1, std::chrono::milliseconds window = 5s) {
  std::vector<std::string> texts(all.size());
  std::vector<std::thread> threads;
  for (const std::size_t i : present)
    threads.emplace_back([&, i] { texts[i] = met(all[i], smallest, window); });
  for (std::thread& t : threads) t.join();
  return texts;
}
}  // namespace

TEST_CASE(
    "meeting: those that are left agree, the lowest coordinates, ended ones are not awaited") {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (int lost = 0; lost < ranks; ++lost) {
      auto all = processes_of(ranks);
      std::vector<std::size_t> present;
      std::string ids;
      const bool loses = ranks > 2;
      for (int r = 0; r < ranks; ++r)
        if (!loses || r != lost) {
          present.push_back(static_cast<std::size_t>(r));
          ids += concat(" ", r + 1);
        }
      if (loses) all[static_cast<std::size_t>(lost)].point.close();
      const auto begin = std::chrono::steady_clock::now();
      const auto texts = met_by(all, present);
      CHECK(std::chrono::steady_clock::now() - begin < 2s);
      for (std::size_t k = 0; k < present.size(); ++k)
        CHECK(texts[present[k]] ==
              concat(k, " of ", present.size(), ":", ids, k == 0 ? "" : " at node:7"));
    }
}

TEST_CASE(
    "meeting: one that lives and does not come is awaited for the window, and then left out") {
  auto all = processes_of(3);
  const auto begin = std::chrono::steady_clock::now();
  const auto texts = met_by(all, {0, 2}, 1, 400ms);
  CHECK(std::chrono::steady_clock::now() - begin > 400ms);
  CHECK(texts[0] == "0 of 2: 1 3");
  CHECK(texts[2] == "1 of 2: 1 3 at node:7");
  // It comes later: those that are left have another generation now.
  generation_history& newer = all[0].point.history;
  const generation second = newer.promised().front();
  newer.form(second);
  const auto refusal = answer_to(all[0], {frame::meet, 0, all[1].point.meet_text(all[1].self, 1s)});
  REQUIRE(refusal);
  CHECK(refusal->kind == frame::refused);
  CHECK(contains(refusal->payload, "the run has lost it, and is at generation 2 now"));
}

TEST_CASE("meeting: a minority, and fewer than the smallest number, end with the reason on all") {
  auto all = processes_of(5);
  for (const std::size_t r : {0, 2, 4}) all[r].point.close();
  auto texts = met_by(all, {1, 3});
  for (const std::size_t r : {1, 3})
    CHECK(contains(texts[r], "2 ranks are left of the 5 of generation 1"));
  all = processes_of(3);
  all[2].point.close();
  texts = met_by(all, {0, 1}, 3);
  for (const std::size_t r : {0, 1}) CHECK(contains(texts[r], "fewer than elastic{.smallest = 3}"));
}

TEST_CASE("meeting: too few ranks await the others for a deadline, where the window is over") {
  for (const int smallest : {1, 2}) {
    auto all = processes_of(smallest == 1 ? 3 : 2);  // no quorum, or too small
    std::vector<std::string> texts(2);
    const std::size_t last = all.size() - 1;
    std::thread first([&] { texts[0] = met(all[last - 1], smallest, 50ms, {}, 10s); });
    std::this_thread::sleep_for(300ms);
    texts[1] = met(all[last], smallest, 50ms, {}, 10s);
    first.join();
    CHECK(texts[0] == concat("0 of 2: ", last, " ", last + 1));
    CHECK(texts[1] == concat("1 of 2: ", last, " ", last + 1, " at node:7"));
  }
}

TEST_CASE("meeting: where another program has a lost member's port, what it says is not believed") {
  for (const frame::type kind : {frame::refused, frame::failed}) {
    auto all = processes_of(2);
    const listener strange(0, "127.0.0.1");
    generation first = all[0].point.history.formed();
    first.members.insert(first.members.begin(), {9, "127.0.0.1", strange.port()});
    for (process& p : all) p.point.history = generation_history(first);
    std::atomic<bool> ends{false};
    std::thread other([&] {
      for (std::vector<tcp_connection> calls; !ends; std::this_thread::sleep_for(1ms))
        if (tcp_connection c = strange.accept(); !c.is_closed())
          calls.emplace_back(std::move(c)).send({kind, 0, "another_secret, end"});
    });
    const auto begin = std::chrono::steady_clock::now();
    const auto texts = met_by(all, {0, 1});
    CHECK(std::chrono::steady_clock::now() - begin < 2s);
    CHECK(texts == std::vector<std::string>{"0 of 2: 1 2", "1 of 2: 1 2 at node:7"});
    ends = true;
    other.join();
  }
}

TEST_CASE("meeting: a deadline of a hundred years is one") {
  auto all = processes_of(2);
  std::thread other([&] { (void)met(all[1], 1, 5s, {}, longest_deadline); });
  CHECK(met(all[0], 1, 5s, {}, longest_deadline) == "0 of 2: 1 2");
  other.join();
}

TEST_CASE("meeting: the same ranks that have failed too often end, all by one rank's decision") {
  constexpr int most = meeting::most_repetitions;
  // Of the coordinator and of the others, which have seen other numbers of failures.
  for (const auto& [first, others, ends] :
       {std::tuple{most + 1, 0, true}, {most, most + 1, false}, {0, 2 * most, false}})
    for (const bool loses : {false, true}) {
      auto all = processes_of(3);
      if (loses) all[2].point.close();
      std::vector<std::string> texts(loses ? 2 : 3);
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < texts.size(); ++i)
        threads.emplace_back([&, i] {
          failed_worlds f{all[i].point.history.formed().members, i == 0 ? first : others, "why"};
          texts[i] = met(all[i], 1, 5s, f);
        });
      for (std::thread& t : threads) t.join();
      for (const std::string& text : texts)
        if (ends && !loses)
          CHECK(text ==
                concat("elastic: ", most + 1, " worlds of the same ranks have failed: why"));
        else
          CHECK(contains(text, concat(" of ", texts.size(), ": 1 2").c_str()));
    }
}
