// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Who may send to a rank: peers by plain sockets and by libzmq, with and without the run's secret.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/bootstrap/tcp_connection.hpp>
#include <cordee/comm/transports/zeromq/acceptor.hpp>

#include "tests/support/ipv6.hpp"
#include "tests/support/printed_by.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee::detail::comm;
using cordee::concat;
using support::contains, support::printed_by, support::text_of;
using namespace std::chrono_literals;

namespace {

struct fixture {
  zeromq_context context{};
  std::string address = "127.0.0.1";
  zeromq_acceptor acceptor{context, 0, 3, address, "the run's secret"};
  std::vector<std::string> received{};  // "rank:frame"

  [[nodiscard]] std::string endpoint() const {
    return concat("tcp://", with_port(address, acceptor.port()));
  }
  void poll() {
    acceptor.receive(
        [&](int rank, zeromq_message m) { received.push_back(concat(rank, ":", m.text())); });
    acceptor.watch();
  }
  void poll_for(std::chrono::milliseconds time) {
    const auto never = [&] {
      poll();
      return false;
    };
    poll_until(never, time, 1ms);
  }
  template <class Ready>
  bool polled_until(const Ready& ready) {
    return poll_until(
        [&] {
          poll();
          return ready();
        },
        20s, 1ms);
  }
};

struct dealer {
  zeromq_socket socket;
  dealer(const zeromq_context& context, const std::string& endpoint) : socket(context, ZMQ_DEALER) {
    socket.set(ZMQ_LINGER, 0);
    socket.set(ZMQ_IPV6, 1);
    socket.connect(endpoint);
  }
  void send(const std::string& text) const {
    zeromq_message m(text.size());
    std::memcpy(m.data(), text.data(), text.size());
    REQUIRE(socket.try_send(m));
  }
};

std::string local(const tcp_connection& c) {
  sockaddr_in own{};
  socklen_t size = sizeof own;
  getsockname(c.descriptor(), reinterpret_cast<sockaddr*>(&own), &size);
  return concat("127.0.0.1:", ntohs(own.sin_port));
}

}  // namespace

TEST_CASE("zeromq_acceptor: ranks with the secret join once, and their frames arrive in order") {
  fixture f;
  CHECK(f.acceptor.not_joined() == "rank 0, rank 1, rank 2");
  const dealer one(f.context, f.endpoint()), two(f.context, f.endpoint());
  one.send(zeromq_hello{1, "the run's secret"}.serialize());
  one.send("a");
  one.send("b");
  two.send(zeromq_hello{2, "the run's secret"}.serialize());
  CHECK(f.polled_until(
      [&] { return f.acceptor.not_joined() == "rank 0" && f.received.size() == 2; }));
  CHECK(f.received == std::vector<std::string>{"1:a", "1:b"});
  CHECK(f.acceptor.disconnected_ranks().empty());
}

TEST_CASE("zeromq_acceptor: a frame that arrives ends await(), and without one the time does") {
  fixture f;
  const dealer one(f.context, f.endpoint());
  one.send(zeromq_hello{1, "the run's secret"}.serialize());
  f.poll_for(200ms);
  const auto start = std::chrono::steady_clock::now();
  f.acceptor.await(200ms);
  CHECK(std::chrono::steady_clock::now() - start >= 200ms);
  std::thread later([&] {
    std::this_thread::sleep_for(100ms);
    one.send("frame");
  });
  while (f.received.empty() && std::chrono::steady_clock::now() - start < 8s) {
    f.acceptor.await(900ms);
    f.poll();
  }
  later.join();
  CHECK(f.received == std::vector<std::string>{"1:frame"});
  CHECK(std::chrono::steady_clock::now() - start < 900ms);
}

TEST_CASE("zeromq_acceptor: ranks join over IPv6, at one address and at all") {
  if (!support::has_ipv6()) return;
  for (const std::string listen : {"::1", "[::1]", "*"}) {
    fixture f{.address = listen};
    CHECK(f.acceptor.address() == (listen == "*" ? "::" : "::1"));
    f.address = "::1";
    const dealer one(f.context, f.endpoint());
    one.send(zeromq_hello{1, "the run's secret"}.serialize());
    CHECK(f.polled_until([&] { return f.acceptor.not_joined() == "rank 0, rank 2"; }));
    f.address = "127.0.0.1";
    const dealer two(f.context, f.endpoint());
    two.send(zeromq_hello{2, "another secret"}.serialize());
    const std::string printed = printed_by([&] { f.poll_for(100ms); });
    CHECK(contains(printed, "cordee: rank 0 refuses 127.0.0.1:") == (listen == "*"));
  }
}

TEST_CASE(
    "zeromq_acceptor: what is not a hello of the run is refused with its address, and dropped") {
  fixture f;
  const std::string printed = printed_by([&] {
    std::vector<dealer> peers;
    const auto refused = [&](const std::string& first) {
      peers.emplace_back(f.context, f.endpoint());
      peers.back().send(first);
      peers.back().send("later");
      f.poll_for(50ms);
    };
    refused("");
    refused("GET / HTTP/1.1");
    refused(zeromq_hello{1, "another secret"}.serialize());
    refused(zeromq_hello{3, "the run's secret"}.serialize());
    refused(zeromq_hello{-1, "the run's secret"}.serialize());
    refused(std::string(zeromq_longest_frame, 'x'));
    const dealer joined(f.context, f.endpoint());
    joined.send(zeromq_hello{1, "the run's secret"}.serialize());
    CHECK(f.polled_until([&] { return f.acceptor.not_joined() == "rank 0, rank 2"; }));
    refused(zeromq_hello{1, "the run's secret"}.serialize());
    f.poll_for(50ms);
  });
  CHECK(f.received.empty());
  CHECK(f.acceptor.not_joined() == "rank 0, rank 2");
  const auto count = [&](const std::string& text) {
    int n = 0;
    for (std::size_t at = 0; (at = printed.find(text, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  CAPTURE(printed);
  CHECK(count("cordee: rank 0 refuses 127.0.0.1:") == 7);
  CHECK(count("is no hello of this version of cordee") == 3);
  CHECK(count("has another secret") == 1);
  CHECK(count("it says that it is rank 3 of 3") == 1);
  CHECK(count("it says that it is rank -1 of 3") == 1);
  CHECK(count("rank 1 has joined already") == 1);
}

TEST_CASE("zeromq_acceptor: another protocol, a length beyond a chunk, and silence are refused") {
  fixture f;
  std::vector<std::string> addresses;
  const std::string printed = printed_by([&](const std::string& path) {
    const auto accepted = [&] {
      tcp_connection c = tcp_connection::connect("127.0.0.1", f.acceptor.port());
      addresses.push_back(local(c));
      f.poll_for(500ms);  // libzmq's thread tells of it before the peer is refused
      return c;
    };
    const tcp_connection garbage = accepted();
    const std::string magic(64, '\xff');
    REQUIRE(::write(garbage.descriptor(), magic.data(), magic.size()) == 64);
    f.poll_for(100ms);

    // A greeting of ZMTP 3.0 with mechanism NULL, a READY command, and a frame of 8 MiB.
    const tcp_connection oversized = accepted();
    std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL", 16);
    greeting.resize(64, '\0');
    const std::string ready(
        "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
        "DEALER",
        2 + 0x1c);
    const std::string frame("\x02\0\0\0\0\0\x80\0\0", 9);
    for (const std::string& part : {greeting, ready, frame})
      REQUIRE(::write(oversized.descriptor(), part.data(), part.size()) ==
              static_cast<ssize_t>(part.size()));
    f.poll_for(200ms);

    const tcp_connection silent = accepted();
    CHECK(f.polled_until([&] {
      std::fflush(stderr);
      const std::string text = text_of(path);
      return std::count(text.begin(), text.end(), '\n') == 3;
    }));
  });
  CAPTURE(printed);
  for (const std::string& address : addresses)
    CHECK(contains(
        printed,
        concat("cordee: rank 0 refuses ", address, ": it sent no hello of this run").c_str()));
  CHECK(f.received.empty());
}

TEST_CASE("zeromq_acceptor: a message of several parts is one empty frame") {
  fixture f;
  const dealer one(f.context, f.endpoint());
  one.send(zeromq_hello{1, "the run's secret"}.serialize());
  for (int k = 0; k < 3; ++k)
    REQUIRE(zmq_send(one.socket.get(), "part", 4, k < 2 ? ZMQ_SNDMORE : 0) == 4);
  one.send("whole");
  CHECK(f.polled_until([&] { return f.received.size() == 2; }));
  CHECK(f.received == std::vector<std::string>{"1:", "1:whole"});
}

TEST_CASE("zeromq_acceptor: a hello counts that is received before its connection is noted") {
  fixture f;
  const std::string printed = printed_by([&] {
    {
      const dealer one(f.context, f.endpoint());
      one.send(zeromq_hello{1, "the run's secret"}.serialize());
      const auto joined = [&] {
        f.acceptor.receive([](int, zeromq_message) {});
        return f.acceptor.not_joined() == "rank 0, rank 2";
      };
      CHECK(poll_until(joined, 20s, 1ms));
    }
    CHECK(f.polled_until([&] { return f.acceptor.disconnected_ranks() == std::vector{1}; }));
  });
  CHECK(printed == "");
}

TEST_CASE("zeromq_acceptor: the rank of a connection that closes is known") {
  fixture f;
  {
    const dealer one(f.context, f.endpoint());
    one.send(zeromq_hello{1, "the run's secret"}.serialize());
    CHECK(f.polled_until([&] { return f.acceptor.not_joined() == "rank 0, rank 2"; }));
    CHECK(f.acceptor.disconnected_ranks().empty());
  }
  CHECK(f.polled_until([&] { return f.acceptor.disconnected_ranks() == std::vector{1}; }));
}
