// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/bootstrap/acceptor.hpp>

#include "tests/support/local_listener.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::bootstrap_acceptor, detail::comm::bootstrap_relay, detail::comm::frame,
    detail::comm::hello, detail::comm::listener, detail::comm::tcp_connection;

namespace {

struct server {
  int ranks;
  support::local_listener port{};
  listener door{port.socket()};
  bootstrap_relay relay{ranks, "secret", 5s};
  bootstrap_acceptor acceptor{door, relay};

  [[nodiscard]] tcp_connection connect() const { return tcp_connection(port.connect()); }
  [[nodiscard]] tcp_connection join(int rank) const {
    tcp_connection connection = connect();
    connection.send({frame::hello, rank, detail::comm::to_bytes(hello{rank, ranks}) + "secret"});
    return connection;
  }
  /// The number of connections after it.
  std::size_t turn() {
    acceptor.wait(0);
    acceptor.receive({});
    std::vector<pollfd> served;
    relay.append_to(served);
    return served.size();
  }
};

}  // namespace

TEST_CASE("bootstrap_acceptor: a turn accepts one connection") {
  server s{2};
  CHECK(s.turn() == 0);
  const tcp_connection a = s.connect(), b = s.connect();
  CHECK(s.turn() == 1);
  CHECK(s.turn() == 2);
  CHECK(s.turn() == 2);
}

TEST_CASE(
    "bootstrap_acceptor: all ranks have joined: nothing listens, unauthenticated peers close") {
  server s{2};
  tcp_connection stranger = s.connect();
  tcp_connection a = s.join(0), b = s.join(1);
  CHECK(s.turn() == 1);
  CHECK(s.turn() == 2);
  CHECK_FALSE(s.door.is_closed());
  CHECK(s.turn() == 2);  // the ranks
  CHECK(s.door.is_closed());
  CHECK(s.connect().is_closed());
  CHECK_FALSE(stranger.try_receive().has_value());
  CHECK(stranger.is_closed());
  CHECK(a.try_receive()->kind == frame::ack);
  CHECK(b.try_receive()->kind == frame::ack);
}

TEST_CASE("bootstrap_acceptor: without a free descriptor it passes a turn, then accepts") {
  server s{2};
  const tcp_connection a = s.connect();
  const std::size_t when_full = [&] {
    const support::no_descriptors none;
    return s.turn();
  }();
  CHECK(when_full == 0);
  CHECK(s.turn() == 0);  // does not look, so that its thread does not spin
  CHECK(s.turn() == 1);
}

TEST_CASE("bootstrap_acceptor: the oldest stranger makes room for a new connection") {
  server s{2};
  std::vector<tcp_connection> unauthenticated;
  for (int k = 0; k < 2 + 64; ++k) {
    unauthenticated.push_back(s.connect());
    s.turn();
  }
  const tcp_connection last = s.connect();
  CHECK(s.turn() == 2 + 64);
  CHECK_FALSE(unauthenticated[0].try_receive().has_value());
  CHECK(unauthenticated[0].is_closed());
  CHECK_FALSE(unauthenticated[1].try_receive().has_value());
  CHECK_FALSE(unauthenticated[1].is_closed());
}
