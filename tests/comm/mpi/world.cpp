// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/mpi/world.hpp>

using namespace cordee;
using namespace std::chrono_literals;

TEST_CASE("mpi world: an exchange after a failure gives up at once, with the cause") {
  detail::mpi_world world(30s);
  world.fail("the sensor fell off");
  world.fail("an echo");
  std::byte x{};
  detail::mpi_parcel heard{world.rank(), &x, 1};
  std::string said;
  try {
    world.exchange(reducer_lane, {&heard, 1}, {});
  } catch (const error& e) {
    said = e.what();
  }
  CHECK(said.find("gave up: ") != std::string::npos);
  CHECK(said.find("the sensor fell off") != std::string::npos);
  world.leave();
  CHECK(world.first().happened());
}

TEST_CASE("mpi world: one after another, and nothing of one is heard in the next") {
  for (int k = 0; k < 3; ++k) {
    detail::mpi_world world(30s);
    const int p = world.size(), next = (world.rank() + 1) % p, before = (world.rank() + p - 1) % p;
    int mine = 10 * k + world.rank(), heard = -1;
    detail::mpi_parcel in{before, &heard, sizeof heard}, out{next, &mine, sizeof mine};
    world.exchange(agree_lane, {&in, 1}, {&out, 1});
    CHECK(heard == 10 * k + before);
    world.leave();
    CHECK_FALSE(world.first().happened());
  }
}

TEST_CASE("mpi world: ranks of a machine share the cores that they may run on together") {
  const int p = detail::mpi_session::begin().size;
  const auto share = [](int ranks) {
    detail::mpi_world world(30s);
    CHECK(world.local.ranks == ranks);
    world.leave();
    return world.local.share();
  };
  cpu_set_t all, mine;
  CPU_ZERO(&all);
  sched_getaffinity(0, sizeof all, &all);
  const int cores = CPU_COUNT(&all);  // the tests' launchers tie no rank to a core
  CHECK(share(p) == std::max(1, cores / p));
  // Each rank on one core: half of the ranks on the first, half on the last.
  int first = 0, last = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all)) last = core;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&mine);
  CPU_SET(detail::mpi_session::begin().rank % 2 == 0 ? first : last, &mine);
  sched_setaffinity(0, sizeof mine, &mine);
  CHECK(share(p) == std::max(1, std::min(cores, 2) / p));
  sched_setaffinity(0, sizeof all, &all);
}
