// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/bootstrap/meeting_point.hpp>

#include "tests/comm/transports/bootstrap/processes_that_meet.hpp"
#include "tests/support/ranks.hpp"

using namespace support;
using cordee::detail::comm::world_call;

TEST_CASE(
    "meeting_point: strangers, and what a member would not send, are refused, and no one joins "
    "so") {
  auto all = processes_of(2);
  process& p = all[0];
  const std::string right = all[1].point.meet_text(all[1].self, 1s);
  const auto reason = [&](const frame& f) {
    const auto answer = answer_to(p, f);
    return answer ? answer->payload : std::string("no answer");
  };
  CHECK(contains(reason({frame::meet, 0, "another" + right.substr(right.find(' '))}),
                 "another secret"));
  CHECK(contains(reason({frame::join, 0, "the_secrey 7 127.0.0.1 99 "}), "another secret"));
  for (const frame& f : std::vector<frame>{{frame::hello, 0, right},
                                           {frame::world, 0, right},
                                           {frame::join, 0, ""},
                                           {frame::join, 0, "the_secret"},
                                           {frame::meet, 0, "the_secret 7 127.0.0.1 0 "}})
    CHECK(reason(f) == "no answer");
  CHECK(p.point.those_that(meeting_point::purpose::meets).empty());
  CHECK(p.point.those_that(meeting_point::purpose::joins).empty());
  // Whose call was sent in an older generation, and arrives late.
  p.point.history.form({2, 6, p.point.history.formed().members});
  CHECK(reason({frame::meet, 0, right}) == "no answer");
  CHECK(p.point.those_that(meeting_point::purpose::meets).empty());
}

TEST_CASE("meeting_point: a world is taken with the run's secret alone") {
  const generation next{2, 5, {{7, "127.0.0.1", 80}}};
  const std::string text = world_call{next, {9, "s", {"node"}}}.serialize("key");
  REQUIRE(world_call::parse(text, "key"));
  CHECK(world_call::parse(text, "key")->server.port == 9);
  CHECK_FALSE(world_call::parse(text, "kez"));
  CHECK_FALSE(world_call::parse(text, ""));
  for (std::size_t n = 0; n + 3 < text.size(); ++n)
    CHECK_FALSE(world_call::parse(text.substr(0, n), "key"));
}
