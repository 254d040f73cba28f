// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <doctest/doctest.h>

#include <cordee/comm/nccl/bootstrap_client.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::bootstrap_client, detail::comm::bootstrap_server;

TEST_CASE("bootstrap_client: an allgather that a rank does not join fails at the deadline") {
  const bootstrap_server server(2, 0, 1, 10s);
  bootstrap_client a({0, 2}, bootstrap_client::join({"127.0.0.1"}, server.port(), {1, 0, 2}));
  bootstrap_client b({1, 2}, bootstrap_client::join({"127.0.0.1"}, server.port(), {1, 1, 2}));
  const std::string message = support::error_message([&] { a.allgather("here", 400ms); });
  CHECK(support::contains(message, "rank 0 waited 400 ms for every rank to start"));
}

TEST_CASE("bootstrap_client: join tries every host name") {
  const bootstrap_server server(1, 0, 1, 10s);
  CHECK_FALSE(
      bootstrap_client::join({"no.such.name.invalid", "127.0.0.1"}, server.port(), {1, 0, 1})
          .is_closed());
}
