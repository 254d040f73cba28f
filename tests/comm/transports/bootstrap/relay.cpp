// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a bootstrap server forwards, on socket pairs and without its thread: the order of events is
// the test's own.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/bootstrap/relay.hpp>

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

TEST_CASE("bootstrap_relay: a hello with another secret is refused, and does not end the run") {
  bootstrap_relay relay(3, "secret", 5s);
  tcp_connection a = join(relay, 0, 3);
  const auto refused = [&](int rank, const std::string& secret) {
    tcp_connection stranger = connect(relay);
    stranger.send({frame::hello, rank, detail::comm::to_bytes(hello{rank, 3}) + secret});
    relay.receive(start);
    const auto answers = frames(stranger);
    CHECK(stranger.is_closed());
    CHECK(answers.size() == 1);
    CHECK(count(answers, frame::refused, 0) == 1);
    return answers.at(0).payload;
  };
  CHECK(refused(1, "Secret") ==
        "its secret is not rank 0's: start every rank with the same CORDEE_SECRET_KEY, or "
        "CORDEE_SECRET_KEY_FILE");
  CHECK(refused(2, "").starts_with("it has no secret, but rank 0 has one: "));
  for (int k = 0; k < 100; ++k)
    for (const int rank : {-1, 1, 3, 1 << 30}) refused(rank, concat(k));
  CHECK(relay.next_refusal() == " as rank 1: its secret is not rank 0's");
  CHECK(relay.next_refusal() == " as rank 2: it has no secret, but rank 0 has one");
  CHECK(relay.next_refusal() == " as rank -1: its secret is not rank 0's");
  CHECK(relay.next_refusal() == "");  // one of each rank, and of what is none
  CHECK(frames(a).empty());
  CHECK(relay.not_informed() == "");
  tcp_connection b = join(relay, 1, 3);
  CHECK(relay.refusals() == " as rank 2: it has no secret, but rank 0 has one");
}

TEST_CASE("bootstrap_relay: without a secret of rank 0 a rank that has one ends the run on all") {
  bootstrap_relay relay(3, "", 5s);
  std::vector<tcp_connection> ranks;
  for (const int rank : {0, 1, 2}) {
    ranks.push_back(connect(relay));
    ranks.back().send({frame::hello, rank,
                       detail::comm::to_bytes(hello{rank, 3}) + (rank == 1 ? "its secret" : "")});
    relay.receive(start);
  }
  for (tcp_connection& rank : ranks) {
    const auto received = frames(rank);
    CHECK(count(received, frame::failed, 1) == 1);
    CHECK(received.at(received.size() > 1 ? 1 : 0)
              .payload.starts_with("it has a secret, but rank 0 has none: start every rank with "
                                   "the same CORDEE_SECRET_KEY"));
  }
  CHECK(relay.not_joined() == "rank 1");
}

TEST_CASE("bootstrap_relay: a rank that joins after a failure gets it, and who has ended") {
  bootstrap_relay relay(4, "secret", 5s);
  tcp_connection a = join(relay, 0, 4), b = join(relay, 1, 4);
  CHECK(relay.not_informed() == "rank 2, rank 3");
  relay.fail({frame::failed, 0, "why"});
  b.send({frame::left, 1, ""});
  relay.receive(start);
  tcp_connection d = join(relay, 3, 4);
  const auto received = frames(d);
  CHECK(count(received, frame::failed, 0) == 1);
  CHECK(count(received, frame::left, 1) == 1);
  CHECK(count(received, frame::lost, 2) == 1);
  CHECK(received.size() == 3);
  CHECK(relay.not_informed() == "rank 2, rank 3");  // which may not have read it yet
  d.send({frame::left, 3, ""});
  relay.receive(start);
  CHECK(relay.not_informed() == "rank 2");
}
