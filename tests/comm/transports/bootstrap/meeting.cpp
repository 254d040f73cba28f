// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Meetings of threads, each with a meeting point of its own, and strangers that call there.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
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
std::string met(process& p, int smallest, std::chrono::milliseconds window) {
  try {
    meeting m(p.point, p.self, smallest);
    const next_world w = m.agree(window, window);
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
