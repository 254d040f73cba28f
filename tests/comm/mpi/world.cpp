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
  const detail::mpi_parcel heard{world.rank(), &x, 1};
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
    const detail::mpi_parcel in{before, &heard, sizeof heard}, out{next, &mine, sizeof mine};
    world.exchange(agree_lane, {&in, 1}, {&out, 1});
    CHECK(heard == 10 * k + before);
    world.leave();
    CHECK_FALSE(world.first().happened());
  }
}
