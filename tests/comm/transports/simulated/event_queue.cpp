// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/event_queue.hpp>

using cordee::detail::comm::event_queue;

TEST_CASE("event_queue: events come by their times, and those of one time by their numbers") {
  // Times from few values, often the same in a row; events of which some become stale meanwhile.
  std::mt19937 random(7);
  event_queue queue;
  std::set<std::pair<double, std::size_t>> expected;
  std::map<std::size_t, std::uint64_t> versions;
  const auto is_stale = [&](const event_queue::event& e) { return versions[e.id] != e.version; };
  double now = 0;
  std::size_t next_id = 0;
  std::vector<event_queue::event> events;
  for (int round = 0; round < 2000; ++round) {
    const double time = now + static_cast<double>(random() % 4);
    for (std::size_t k = random() % 5; k > 0; --k) {
      const std::size_t id = (next_id += 7919) % 100'003;
      queue.push(time, {id, versions[id]});
      expected.emplace(time, id);
    }
    if (!expected.empty() && random() % 4 == 0) {  // one is replaced by a later one
      const auto [at, id] = *expected.begin();
      expected.erase(expected.begin());
      queue.push(at + 1, {id, ++versions[id]});
      expected.emplace(at + 1, id);
    }
    if (random() % 3 == 0) continue;
    now = queue.next_time(is_stale);
    if (expected.empty()) {
      CHECK(now == std::numeric_limits<double>::infinity());
      now = 0;
      continue;
    }
    REQUIRE(now == expected.begin()->first);
    events.clear();
    queue.take(now, events);
    std::erase_if(events, is_stale);
    for (const event_queue::event& e : events) {
      REQUIRE(!expected.empty());
      CHECK(*expected.begin() == std::pair(now, e.id));
      expected.erase(expected.begin());
    }
    CHECK((expected.empty() || expected.begin()->first > now));
  }
}
