// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/mpi/world.hpp>

using namespace cordee;
using namespace cordee::detail::comm;
using namespace std::chrono_literals;

TEST_CASE("mpi_world: an exchange after a failure throws its cause at once") {
  detail::comm::mpi_world world(30s);
  world.fail("sensor failure");
  world.fail("a consequence");
  std::byte x{};
  detail::comm::mpi_transfer receive{world.rank(), &x, 1};
  std::string message;
  try {
    world.exchange(reducer_context, {&receive, 1}, {});
  } catch (const error& e) {
    message = e.what();
  }
  CHECK(message.find(" aborted: ") != std::string::npos);
  CHECK(message.find("sensor failure") != std::string::npos);
  world.leave();
  CHECK(world.first_failure().happened());
}

TEST_CASE("mpi_world: consecutive worlds do not receive each other's messages") {
  for (int k = 0; k < 3; ++k) {
    detail::comm::mpi_world world(30s);
    const int p = world.size(), next = (world.rank() + 1) % p, before = (world.rank() + p - 1) % p;
    int sent = 10 * k + world.rank(), received = -1;
    detail::comm::mpi_transfer in{before, &received, sizeof received},
        out{next, &sent, sizeof sent};
    world.exchange(agreement_context, {&in, 1}, {&out, 1});
    CHECK(received == 10 * k + before);
    world.leave();
    CHECK_FALSE(world.first_failure().happened());
  }
}

TEST_CASE("mpi_world: ranks of a node share the cores on which any of them may run") {
  const int p = detail::comm::mpi_session::start().size;
  const auto cores_per_rank = [](int ranks) {
    detail::comm::mpi_world world(30s);
    CHECK(world.node.local_size == ranks);
    world.leave();
    return world.node.cores_per_rank();
  };
  cpu_set_t all, one_core;
  CPU_ZERO(&all);
  sched_getaffinity(0, sizeof all, &all);
  const int cores = CPU_COUNT(&all);  // the tests' launchers bind no rank to a core
  CHECK(cores_per_rank(p) == std::max(1, cores / p));
  // Each rank on one core: half of the ranks on the first core, half on the last.
  int first = 0, last = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all)) last = core;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&one_core);
  CPU_SET(detail::comm::mpi_session::start().rank % 2 == 0 ? first : last, &one_core);
  sched_setaffinity(0, sizeof one_core, &one_core);
  CHECK(cores_per_rank(p) == std::max(1, std::min(cores, 2) / p));
  sched_setaffinity(0, sizeof all, &all);
}
