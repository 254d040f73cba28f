// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The server and its clients, also clients that do not belong to the run.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/nccl/bootstrap_client.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::bootstrap_client, detail::comm::bootstrap_server, detail::comm::tcp_connection,
    detail::comm::hello, detail::comm::frame;
using support::error_message, support::contains;

namespace {

constexpr std::uint64_t run_id = 7;

tcp_connection join(const bootstrap_server& server, int rank, int size, std::uint64_t id = run_id) {
  return bootstrap_client::join({"127.0.0.1"}, server.port(), {id, rank, size});
}
// The cause that a client receives within ten seconds.
std::string cause(bootstrap_client& g) {
  for (int k = 0; k < 10'000 && !g.first_failure.happened(); ++k) {
    g.poll();
    std::this_thread::sleep_for(1ms);
  }
  return g.first_failure.happened() ? g.first_failure.cause() : "";
}

}  // namespace

TEST_CASE("bootstrap_server: consecutive allgathers return every rank's bytes by rank") {
  const bootstrap_server server(3, 0, run_id, 10s);
  std::vector<std::thread> team;
  std::vector<std::vector<std::string>> gathered(3);
  for (int rank = 0; rank < 3; ++rank)
    team.emplace_back([&, rank] {
      bootstrap_client g({rank, 3}, join(server, rank, 3));
      const auto first = g.allgather(concat("I am ", rank), 10s);
      gathered[static_cast<std::size_t>(rank)] = g.allgather(first.at(2) + first.at(0), 10s);
      g.leave();
    });
  for (std::thread& t : team) t.join();
  for (const auto& strings : gathered)
    CHECK(strings == std::vector<std::string>(3, "I am 2I am 0"));
}

TEST_CASE(
    "bootstrap_server: failures, leaves and deaths reach all clients, and the first failure "
    "counts") {
  const bootstrap_server server(3, 0, run_id, 10s);
  bootstrap_client a({0, 3}, join(server, 0, 3)), b({1, 3}, join(server, 1, 3));
  {
    bootstrap_client c({2, 3}, join(server, 2, 3));
    c.leave();
    while (!b.has_left(2)) b.poll();
  }
  CHECK(b.remaining() == "rank 0, rank 1");
  b.fail("its cause", true);
  b.fail("a consequence");
  CHECK(cause(a) == "rank 1: its cause");
  CHECK(a.first_failure.stalled());

  const bootstrap_server other(2, 0, run_id, 10s);
  bootstrap_client d({0, 2}, join(other, 0, 2));
  join(other, 1, 2).close();
  CHECK(contains(cause(d), "rank 1: its process ended without leaving the run"));
}

TEST_CASE("bootstrap_client: the death of the server is a failure of rank 0") {
  auto server = std::make_unique<bootstrap_server>(2, 0, run_id, 10s);
  bootstrap_client g({1, 2}, join(*server, 1, 2));
  server.reset();
  CHECK(contains(cause(g), "rank 0: its process ended without leaving the run"));
}

TEST_CASE("bootstrap_server: another number of ranks and a second process of a rank fail the run") {
  for (const hello& wrong : {hello{run_id, 1, 3}, hello{run_id, 0, 2}, hello{run_id, 5, 2}}) {
    const bootstrap_server server(2, 0, run_id, 10s);
    bootstrap_client g({0, 2}, join(server, 0, 2));
    const std::string message = error_message([&] { join(server, wrong.rank, wrong.size); });
    CHECK(contains(
        message, wrong.rank == 0 ? "two processes are rank 0 of 2" : "but rank 0 as rank 0 of 2"));
    CHECK(cause(g) == message);
    if (wrong.rank == 0) continue;
    bootstrap_client late({1, 2}, join(server, 1, 2));
    CHECK(cause(late) == message);
  }
}

TEST_CASE("bootstrap_server: a complete run goes on when other processes connect to its port") {
  const bootstrap_server server(2, 0, run_id, 10s);
  bootstrap_client a({0, 2}, join(server, 0, 2)), b({1, 2}, join(server, 1, 2));
  CHECK(contains(error_message([&] { join(server, 1, 4); }), "it is started as rank 1 of 4"));
  CHECK(contains(error_message([&] { join(server, 1, 2); }), "two processes are rank 1 of 2"));
  b.leave();  // after all earlier messages of the server
  for (int k = 0; k < 10'000 && !a.has_left(1); ++k) {
    a.poll();
    std::this_thread::sleep_for(1ms);
  }
  CHECK(a.has_left(1));
  CHECK_FALSE(a.first_failure.happened());
}

TEST_CASE("bootstrap_server: a client of another run gets no answer") {
  const bootstrap_server server(2, 0, run_id, 10s);
  CHECK(join(server, 1, 2, run_id + 1).is_closed());
  CHECK_FALSE(join(server, 1, 2).is_closed());
}

TEST_CASE("bootstrap_server: an error at the deadline names the ranks that have not connected") {
  const bootstrap_server server(4, 0, run_id, 2000ms);
  bootstrap_client a({0, 4}, join(server, 0, 4)), c({2, 4}, join(server, 2, 4));
  const std::string message = error_message([&] { c.allgather("here", 10s); });
  CHECK(contains(message,
                 "rank 2 aborted: rank 0: waited 2000 ms for rank 1, rank 3 to connect to port"));
}
