// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a bootstrap server forwards, on socket pairs and without its thread: the order of events is
// the test's own.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/bootstrap/relay.hpp>

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::bootstrap_relay, detail::comm::frame, detail::comm::hello,
    detail::comm::tcp_connection;

namespace {

constexpr bootstrap_relay::time_point start{};

tcp_connection connect(bootstrap_relay& relay, bootstrap_relay::time_point now = start) {
  int sockets[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  relay.add(tcp_connection(sockets[1]), now);
  return tcp_connection(sockets[0]);
}
tcp_connection join(bootstrap_relay& relay, int rank, int size) {
  tcp_connection connection = connect(relay);
  connection.send({frame::hello, rank, detail::comm::to_bytes(hello{rank, size}) + "secret"});
  relay.receive(start);
  const auto answer = connection.try_receive();
  REQUIRE(answer.has_value());
  CHECK(answer->kind == frame::ack);
  return connection;
}
std::vector<frame> frames(tcp_connection& connection) {
  std::vector<frame> received;
  while (auto f = connection.try_receive()) received.push_back(std::move(*f));
  return received;
}
std::size_t count(const std::vector<frame>& frames, frame::type kind, int rank) {
  std::size_t n = 0;
  for (const frame& f : frames) n += f.kind == kind && f.rank == rank ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("bootstrap_relay: a death that a send finds first is reported as one, once") {
  bootstrap_relay relay(3, "secret", 5s);
  tcp_connection a = join(relay, 0, 3), b = join(relay, 1, 3), c = join(relay, 2, 3);
  b.close();
  a.send({frame::stalled, 0, "a message that is sent to rank 1 before its end is received"});
  relay.receive(start);
  relay.receive(start);
  const auto received = frames(c);
  CHECK(count(received, frame::stalled, 0) == 1);
  CHECK(count(received, frame::failed, 1) == 1);
}

TEST_CASE("bootstrap_relay: a rank that is not connected is sent as lost, not as left") {
  bootstrap_relay relay(5, "secret", 5s);
  tcp_connection a = join(relay, 0, 5), b = join(relay, 1, 5), c = join(relay, 2, 5),
                 d = join(relay, 3, 5);  // rank 4 never joins
  d.send({frame::left, 3, ""});
  relay.receive(start);
  b.close();
  relay.receive(start);
  const auto received = frames(c);
  for (const int rank : {0, 1, 2, 3, 4}) {
    CAPTURE(rank);
    CHECK(count(received, frame::left, rank) == (rank == 3 ? 1u : 0u));
    CHECK(count(received, frame::lost, rank) == (rank == 1 || rank == 4 ? 1u : 0u));
  }
}

TEST_CASE("bootstrap_relay: a rank's last message counts, also where a send to it fails first") {
  bootstrap_relay relay(3, "secret", 5s);
  tcp_connection a = join(relay, 0, 3), b = join(relay, 1, 3), c = join(relay, 2, 3);
  b.send({frame::left, 1, ""});
  b.close();
  a.send({frame::left, 0, ""});
  relay.receive(start);
  relay.receive(start);
  const auto received = frames(c);
  CHECK(count(received, frame::left, 0) == 1);
  CHECK(count(received, frame::left, 1) == 1);
  CHECK(count(received, frame::failed, 1) == 0);
}

TEST_CASE("bootstrap_relay: one receive completes all allgathers whose parts are there") {
  bootstrap_relay relay(2, "secret", 5s);
  tcp_connection a = join(relay, 0, 2), b = join(relay, 1, 2);
  for (tcp_connection* rank : {&a, &b})
    for (const char* part : {"first", "second", "third"}) rank->send({frame::allgather, 0, part});
  relay.receive(start);
  CHECK(count(frames(a), frame::allgathered, 0) == 3);
  CHECK(count(frames(b), frame::allgathered, 0) == 3);
}

TEST_CASE("bootstrap_relay: a connection has the time limit for its secret, and a rank has none") {
  bootstrap_relay relay(2, "secret", 5s);
  tcp_connection a = join(relay, 0, 2), stranger = connect(relay),
                 late = connect(relay, start + 1s);
  const auto is_dropped = [](tcp_connection& c) { return !c.try_receive() && c.is_closed(); };
  relay.receive(start + 5s);
  CHECK_FALSE(is_dropped(stranger));
  relay.receive(start + 5s + 1ms);
  CHECK(is_dropped(stranger));
  CHECK_FALSE(is_dropped(late));
  CHECK_FALSE(is_dropped(a));
  CHECK(relay.not_joined() == "rank 1");
}
