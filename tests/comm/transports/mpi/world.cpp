// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/mpi/world.hpp>

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

TEST_CASE("mpi_world: a message of a rank that has left arrives behind one that is late") {
  // Rank 0 exchanges with all others, as in the last round of gossip on a star. Rank 1 has rank 0's
  // message and leaves; rank 2 is late, by more than the grace for messages of a rank that has
  // left.
  // Long messages, which Open MPI sends eagerly, or waits until they are matched (more than 4 KB).
  for (const std::size_t size : {std::size_t{4032}, std::size_t{5000}}) {
    detail::comm::mpi_world world(30s);
    const auto text_of = [&](int rank) { return std::string(size, static_cast<char>('a' + rank)); };
    std::string sent = text_of(world.rank());
    std::vector<std::string> received(static_cast<std::size_t>(world.size()),
                                      std::string(size, ' '));
    std::vector<detail::comm::mpi_transfer> in, out;
    for (int peer = world.size() - 1; peer >= 0; --peer) {
      if ((world.rank() == 0) == (peer == 0)) continue;
      in.push_back({peer, received[static_cast<std::size_t>(peer)].data(), size});
      out.push_back({peer, sent.data(), size});
    }
    if (world.rank() == 2) std::this_thread::sleep_for(300ms);
    std::string message;
    try {
      world.exchange(reducer_context, in, out);
    } catch (const error& e) {
      message = e.what();
    }
    CHECK(message == "");
    for (const auto& t : in) {
      const bool arrived = received[static_cast<std::size_t>(t.peer)] == text_of(t.peer);
      CHECK(arrived);
    }
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
