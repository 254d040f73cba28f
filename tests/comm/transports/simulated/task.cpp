// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/task.hpp>

using namespace cordee::detail::comm;

TEST_CASE("simulated task: a rank has left when all of its fibers have ended") {
  simulated_tasks tasks{{.rank = 0, .ended = true}, {.rank = 1, .ended = true}, {.rank = 1}};
  CHECK(has_left(tasks, 0));
  CHECK(!has_left(tasks, 1));
  tasks[2].ended = true;
  CHECK(has_left(tasks, 1));
}

TEST_CASE("simulated task: a deadlock is described by the end of the chain of waits") {
  // Rank 0's second fiber waits for rank 1, that for rank 2.
  simulated_tasks tasks{{.rank = 0},
                        {.rank = 1, .waits = true},
                        {.rank = 2, .ended = true},
                        {.rank = 0, .waits = true}};
  const auto awaited = [](std::size_t fiber) {
    return fiber == 3 ? std::pair(std::string("rank 1 to send"), 1)
                      : std::pair(std::string("rank 2 to send"), 2);
  };
  CHECK(describe_deadlock(tasks, 3, awaited) ==
        "rank 0 waits for rank 1 to send, which waits in turn for rank 2, but rank 2 has left the "
        "run: every rank must make the same exchanges");
  tasks[2] = simulated_task{.rank = 2};
  CHECK(describe_deadlock(tasks, 1, awaited) ==
        "rank 1 waits for rank 2 to send, and all wait for one another");
}
