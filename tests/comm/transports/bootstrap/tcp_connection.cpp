// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/bootstrap/tcp_connection.hpp>

#include "tests/support/ipv6.hpp"
#include "tests/support/reserved_port.hpp"

using namespace cordee;
using detail::comm::frame, detail::comm::tcp_connection, detail::comm::listener;

namespace {

// The next frame; one of rank -1 after ten seconds, or when the connection is closed.
frame next(tcp_connection& connection) {
  for (int k = 0; k < 10'000; ++k) {
    if (auto f = connection.try_receive()) return *f;
    if (connection.is_closed()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {frame::left, -1, ""};
}

}  // namespace

TEST_CASE("tcp_connection: frames of any length arrive complete, in order, both ways") {
  const listener acceptor(0);
  tcp_connection client = tcp_connection::connect("127.0.0.1", acceptor.port()),
                 server = acceptor.accept(10'000);
  REQUIRE_FALSE(client.is_closed());
  CHECK_FALSE(server.try_receive().has_value());
  for (const std::size_t n : {0u, 1u, 5000u, 100'000u}) {
    client.send({frame::allgather, 3, std::string(n, 'x')});
    client.send({frame::failed, 4, "y"});
    const frame first = next(server), second = next(server);
    CHECK(first.kind == frame::allgather);
    CHECK(first.rank == 3);
    CHECK(first.payload == std::string(n, 'x'));
    CHECK(second.payload == "y");
  }
  server.send({frame::ack, 0, "back"});
  CHECK(next(client).payload == "back");
}

TEST_CASE("tcp_connection: frames sent before a close are received, and then the peer is closed") {
  const listener acceptor(0);
  tcp_connection client = tcp_connection::connect("localhost", acceptor.port()),
                 server = acceptor.accept(10'000);
  client.send({frame::left, 1, "last"});
  client.close();
  CHECK(next(server).payload == "last");
  CHECK(next(server).rank == -1);
  CHECK(server.is_closed());
  server.send({frame::failed, 0, "has no effect"});
}

TEST_CASE("tcp_connection: another protocol closes the connection") {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), std::string(100, '\0')}) {
    const listener acceptor(0);
    const tcp_connection client = tcp_connection::connect("127.0.0.1", acceptor.port());
    tcp_connection server = acceptor.accept(10'000);
    REQUIRE(send(client.descriptor(), bytes.data(), bytes.size(), 0) > 0);
    CHECK(next(server).rank == -1);
    CHECK(server.is_closed());
  }
}

TEST_CASE(
    "tcp_connection: connect to an unused port or an unknown host returns a closed connection") {
  const support::reserved_port unused;
  std::string why;
  CHECK(tcp_connection::connect("127.0.0.1", unused.port, &why).is_closed());
  CHECK(why == "Connection refused");
  CHECK(tcp_connection::connect("no.such.name.invalid", unused.port, &why).is_closed());
  CHECK(why != "");
  CHECK(why != "Connection refused");
}

TEST_CASE("tcp_connection: IPv6 connects as IPv4 does, at one address and at all") {
  if (!support::has_ipv6()) return;
  for (const std::string host : {"::1", "[::1]", "0:0:0:0:0:0:0:1"}) {
    const listener acceptor(0, host);
    CHECK(acceptor.local_address() == "::1");
    tcp_connection client = tcp_connection::connect(host, acceptor.port()),
                   server = acceptor.accept(10'000);
    REQUIRE_FALSE(server.is_closed());
    CHECK(server.peer_address() == "::1");
    CHECK(client.local_address() == "::1");
    client.send({frame::hello, 1, "six"});
    CHECK(next(server).payload == "six");
    CHECK(tcp_connection::connect("127.0.0.1", acceptor.port()).is_closed());
    tcp_connection second = tcp_connection::begin_connect("::1", acceptor.port());
    for (int k = 0; k < 10'000 && !second.has_connected(); ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(acceptor.accept(10'000).peer_address() == "::1");
  }
  const listener all(0);
  for (const std::string host : {"::1", "127.0.0.1"}) {
    const tcp_connection client = tcp_connection::connect(host, all.port());
    CHECK(all.accept(10'000).peer_address() == host);
  }
}

TEST_CASE("tcp_connection: begin_connect connects without blocking, or closes where none listens") {
  const support::reserved_port reserved;
  listener acceptor(reserved.port, "127.0.0.1");
  const auto ends = [](tcp_connection& connection) {
    for (int k = 0; k < 10'000 && !connection.is_closed(); ++k) {
      if (connection.has_connected()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  };
  tcp_connection client = tcp_connection::begin_connect("127.0.0.1", acceptor.port());
  REQUIRE(ends(client));
  tcp_connection server = acceptor.accept(10'000);
  std::thread reader([&] { CHECK(next(server).payload.size() == 10'000'000); });
  client.send({frame::hello, 1, std::string(10'000'000, 'x')});  // more than the socket's buffers
  reader.join();
  acceptor.close();
  tcp_connection refused = tcp_connection::begin_connect("127.0.0.1", acceptor.port());
  CHECK_FALSE(ends(refused));
  CHECK(refused.is_closed());
  for (const std::string address : {"", "no.such.name.invalid"})
    CHECK(tcp_connection::begin_connect(address, 1).is_closed());
}

TEST_CASE("tcp_connection: a frame longer than the limit closes the connection before it is read") {
  const listener acceptor(0);
  tcp_connection client = tcp_connection::connect("127.0.0.1", acceptor.port()),
                 server = acceptor.accept(10'000);
  client.send({frame::hello, 0, std::string(100, 'x')});
  client.send({frame::hello, 0, std::string(101, 'x')});
  std::optional<frame> received;
  for (int k = 0; k < 10'000 && !received; ++k) {
    received = server.try_receive(100);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(received.has_value());
  CHECK(received->payload.size() == 100);
  for (int k = 0; k < 10'000 && !server.is_closed(); ++k) {
    CHECK_FALSE(server.try_receive(100).has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(server.is_closed());
}

TEST_CASE("tcp_connection: no more is read from the socket than the frame's header announces") {
  const listener acceptor(0);
  tcp_connection client = tcp_connection::connect("127.0.0.1", acceptor.port()),
                 server = acceptor.accept(10'000);
  client.send({frame::hello, 0, "first"});
  client.send({frame::hello, 0, std::string(1000, 'x')});
  CHECK(next(server).payload == "first");
  char rest[2000];
  ssize_t left = 0;
  for (int k = 0; k < 10'000 && left < 1016; ++k) {
    left = recv(server.descriptor(), rest, sizeof rest, MSG_PEEK | MSG_DONTWAIT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(left == 1016);  // a header of 16 bytes, and the payload
}

TEST_CASE("listener: it accepts at the address that it is given, and at no other one") {
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    const listener one(0, host);
    CHECK(one.local_address() == "127.0.0.1");
    CHECK_FALSE(tcp_connection::connect("127.0.0.1", one.port()).is_closed());
    CHECK(tcp_connection::connect("127.0.0.2", one.port()).is_closed());
  }
  // All addresses: none given, one of another host, and a name that is not known.
  for (const std::string host : {"", "192.0.2.1", "no.such.name.invalid"}) {
    const listener all(0, host);
    CHECK(all.local_address() == "127.0.0.1");
    CHECK_FALSE(tcp_connection::connect("127.0.0.2", all.port()).is_closed());
  }
}

TEST_CASE("listener: accept returns a closed connection where none has arrived, and after close") {
  const support::reserved_port reserved;
  listener acceptor(reserved.port, "127.0.0.1");
  CHECK(acceptor.accept().is_closed());
  CHECK(acceptor.accept(1).is_closed());
  acceptor.close();
  CHECK(acceptor.accept(1).is_closed());
  CHECK(tcp_connection::connect("127.0.0.1", reserved.port).is_closed());
}

TEST_CASE("listener: a port in use is an error with the remedy") {
  const listener acceptor(0);
  try {
    const listener second(acceptor.port());
    FAIL("two listeners on one port");
  } catch (const error& e) {
    const std::string message = e.what();
    CHECK(message.find(concat("port ", acceptor.port(), " of this host")) != std::string::npos);
    CHECK(message.find("in use") != std::string::npos);
    CHECK(message.find("another MASTER_PORT") != std::string::npos);
  }
}
