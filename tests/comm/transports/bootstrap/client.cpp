// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/bootstrap/client.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::bootstrap_client, detail::comm::bootstrap_server, detail::comm::frame,
    detail::comm::listener, detail::comm::tcp_connection;

TEST_CASE("bootstrap_client: an allgather that a rank does not join fails at the deadline") {
  const bootstrap_server server(2, 0, "key", 10s);
  bootstrap_client a({0, 2}, bootstrap_client::join({"127.0.0.1"}, server.port(), {0, 2}, "key"));
  bootstrap_client b({1, 2}, bootstrap_client::join({"127.0.0.1"}, server.port(), {1, 2}, "key"));
  const std::string message = support::error_message([&] { a.allgather("here", 400ms); });
  CHECK(support::contains(message, "rank 0 waited 400 ms for every rank to start"));
}

TEST_CASE("bootstrap_client: join tries every host name") {
  const bootstrap_server server(1, 0, "key", 10s);
  CHECK_FALSE(
      bootstrap_client::join({"no.such.name.invalid", "127.0.0.1"}, server.port(), {0, 1}, "key")
          .is_closed());
}

TEST_CASE("bootstrap_client: a rank that has died is not waited for, and has not left") {
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const bootstrap_server server(ranks, 0, "key", 10s);
    std::vector<std::unique_ptr<bootstrap_client>> clients;
    for (int rank = 0; rank < ranks; ++rank)
      clients.push_back(std::make_unique<bootstrap_client>(
          detail::comm::rank_assignment{rank, ranks},
          bootstrap_client::join({"127.0.0.1"}, server.port(), {rank, ranks}, "key")));
    clients[1].reset();
    bootstrap_client& last = ranks == 2 ? *clients.front() : *clients.back();
    for (std::size_t rank = 2; rank < clients.size(); ++rank) clients[rank]->leave();
    const auto others_have_left = [&] {
      last.poll();
      return last.remaining() == "rank 0";  // which is stuck
    };
    CHECK(detail::comm::poll_until(others_have_left, 20s, 1ms));
    CHECK_FALSE(last.has_left(1));
    CHECK(last.first_failure.failed_rank() == 1);
  }
}

TEST_CASE("bootstrap_client: malformed messages about a rank that leaves do no harm") {
  const listener acceptor(0);
  tcp_connection connection = tcp_connection::connect("127.0.0.1", acceptor.port());
  tcp_connection server = acceptor.accept(10'000);
  bootstrap_client client({1, 2}, std::move(connection));
  for (const int rank : {-1, 2, 1 << 30, 0})
    server.send({frame::left, rank, "5 3\nabc1 0-2000000000 x\n"});
  for (int k = 0; k < 10'000 && !client.has_left(0); ++k) {
    client.poll();
    std::this_thread::sleep_for(1ms);
  }
  CHECK(client.has_left(0));
  CHECK_FALSE(client.has_left(1));
  CHECK(client.first_failure.report_of(0) == "abc");
}
