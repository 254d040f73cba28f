// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The server and its clients, also clients that do not belong to the run.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <cordee/comm/transports/bootstrap/client.hpp>

#include "tests/support/printed_by.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::comm::bootstrap_client, detail::comm::bootstrap_server, detail::comm::tcp_connection,
    detail::comm::hello, detail::comm::frame;
using support::error_message, support::contains;

namespace {

const std::string secret = "the run's secret";

tcp_connection join(const bootstrap_server& server, int rank, int size,
                    const std::string& key = secret) {
  return bootstrap_client::join({"127.0.0.1"}, server.port(), {rank, size}, key);
}
// Whether the server closes the connection within ten seconds, without an answer.
bool is_dropped(const tcp_connection& connection) {
  const timeval timeout{10, 0};
  setsockopt(connection.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  char byte;
  const auto n = recv(connection.descriptor(), &byte, 1, 0);
  return n == 0 || (n < 0 && errno == ECONNRESET);
}
int open_descriptors() {
  int count = 0;
  for (int d = 0; d < 4096; ++d) count += fcntl(d, F_GETFD) >= 0 ? 1 : 0;
  return count;
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
  const bootstrap_server server(3, 0, secret, 10s);
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
    "bootstrap_server: rank 0 has left when the server, which ends with it, has forwarded it") {
  const bootstrap_server server(1, 0, secret, 30s);
  bootstrap_client zero({0, 1}, join(server, 0, 1));
  zero.leave();
  CHECK(zero.remaining() == "rank 0");
  CHECK(detail::comm::poll_until(
      [&] {
        zero.poll();
        return zero.remaining().empty();
      },
      30s, 1ms));
  CHECK(zero.has_left(0));
}

TEST_CASE(
    "bootstrap_server: failures, leaves and deaths reach all clients, and the first failure "
    "counts") {
  const bootstrap_server server(3, 0, secret, 10s);
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

  const bootstrap_server other(2, 0, secret, 10s);
  bootstrap_client d({0, 2}, join(other, 0, 2));
  join(other, 1, 2).close();
  CHECK(contains(cause(d), "rank 1: its process ended without leaving the run"));
}

TEST_CASE("bootstrap_client: the death of the server is a failure of rank 0") {
  auto server = std::make_unique<bootstrap_server>(2, 0, secret, 10s);
  bootstrap_client g({1, 2}, join(*server, 1, 2));
  server.reset();
  CHECK(contains(cause(g), "rank 0: its process ended without leaving the run"));
}

TEST_CASE("bootstrap_server: another number of ranks and a second process of a rank fail the run") {
  for (const hello& wrong : {hello{1, 3}, hello{0, 2}, hello{5, 2}}) {
    const bootstrap_server server(2, 0, secret, 10s);
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

TEST_CASE("bootstrap_server: when all ranks have joined it listens no more, and the run goes on") {
  const bootstrap_server server(2, 0, secret, 10s);
  tcp_connection stranger = tcp_connection::connect("127.0.0.1", server.port());
  bootstrap_client a({0, 2}, join(server, 0, 2)), b({1, 2}, join(server, 1, 2));
  CHECK(is_dropped(stranger));
  for (const auto& [rank, size] : {std::pair{1, 4}, {1, 2}})
    CHECK(join(server, rank, size).is_closed());
  b.leave();  // after all earlier messages of the server
  for (int k = 0; k < 10'000 && !a.has_left(1); ++k) {
    a.poll();
    std::this_thread::sleep_for(1ms);
  }
  CHECK(a.has_left(1));
  CHECK_FALSE(a.first_failure.happened());
}

TEST_CASE(
    "bootstrap_server: without the secret no process gets a rank's place, and it is printed") {
  const std::string printed = support::printed_by([] {
    const bootstrap_server server(2, 0, secret, 300ms);
    bootstrap_client::join_failure failure;
    CHECK(bootstrap_client::join({"127.0.0.1"}, server.port(), {1, 2}, "another", &failure)
              .is_closed());
    CHECK(failure.is_refused);
    CHECK(failure.text.starts_with("its secret is not rank 0's: "));
    bootstrap_client a({0, 2}, join(server, 0, 2));
    CHECK(contains(cause(a), "; it refused 127.0.0.1 as rank 1: its secret is not rank 0's"));
  });
  CHECK(printed == "cordee: rank 0 refuses 127.0.0.1 as rank 1: its secret is not rank 0's\n");
  for (const std::string other : {"", "the run's secreT", "the run's secret ", "the run's secre"}) {
    const bootstrap_server server(2, 0, secret, 10s);
    for (const int rank : {0, 1, 5}) CHECK(join(server, rank, 2, other).is_closed());
    bootstrap_client a({0, 2}, join(server, 0, 2)), b({1, 2}, join(server, 1, 2));
    a.poll();
    CHECK_FALSE(a.first_failure.happened());
  }
  CHECK(detail::comm::equal_secrets("", ""));
  CHECK(detail::comm::equal_secrets("ab", "ab"));
  for (const char* other : {"", "a", "aa", "bb", "abc"})
    CHECK_FALSE(detail::comm::equal_secrets("ab", other));
}

TEST_CASE("bootstrap_server: runs of any size start while unauthenticated peers send noise") {
  const std::string long_frame = [] {
    std::string header(16, '\0');
    const std::uint32_t words[]{0x63647232, frame::hello, 0, 1u << 26};
    std::memcpy(header.data(), words, sizeof words);
    return header;
  }();
  const std::string messages[]{
      "",         "GET / HTTP/1.1\r\n\r\n", std::string(100'000, '\0'),
      long_frame, long_frame.substr(0, 7),  long_frame + std::string(100'000, 'x')};
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const bootstrap_server server(ranks, 0, secret, 30s);
    std::atomic<bool> started{false};
    std::thread stranger([&] {
      std::vector<tcp_connection> open;
      for (std::size_t k = 0; !started && open.size() < 500; ++k) {
        open.push_back(tcp_connection::connect("127.0.0.1", server.port()));
        const std::string& message = messages[k % std::size(messages)];
        if (!open.back().is_closed())
          (void)send(open.back().descriptor(), message.data(), message.size(), MSG_NOSIGNAL);
      }
    });
    std::vector<std::thread> team;
    for (int rank = 0; rank < ranks; ++rank)
      team.emplace_back([&, rank] {
        tcp_connection joined;
        for (int k = 0; k < 100 && joined.is_closed(); ++k) joined = join(server, rank, ranks);
        REQUIRE_FALSE(joined.is_closed());
        bootstrap_client client({rank, ranks}, std::move(joined));
        CHECK(static_cast<int>(client.allgather(concat(rank), 30s).size()) == ranks);
        started = true;
        client.leave();
      });
    for (std::thread& t : team) t.join();
    stranger.join();
  }
}

TEST_CASE("bootstrap_server: a frame without end is refused at its header, and idle ones in time") {
  const bootstrap_server server(2, 0, secret, 30s, "127.0.0.1", 200ms);
  const std::uint32_t endless[]{0x63647232, frame::hello, 0, 1u << 26};
  for (const std::size_t sent : {sizeof endless, std::size_t{7}, std::size_t{0}}) {
    const tcp_connection stranger = tcp_connection::connect("127.0.0.1", server.port());
    REQUIRE_FALSE(stranger.is_closed());
    if (sent > 0)
      REQUIRE(send(stranger.descriptor(), endless, sent, 0) == static_cast<ssize_t>(sent));
    CHECK(is_dropped(stranger));
  }
  CHECK_FALSE(join(server, 1, 2).is_closed());
}

TEST_CASE("bootstrap_server: unauthenticated peers take a bounded number of descriptors") {
  const bootstrap_server server(2, 0, secret, 30s);
  const int before = open_descriptors();
  std::vector<tcp_connection> unauthenticated;
  for (int k = 0; k < 300; ++k)
    unauthenticated.push_back(tcp_connection::connect("127.0.0.1", server.port()));
  CHECK_FALSE(join(server, 1, 2).is_closed());  // after all of them
  CHECK(open_descriptors() - before <= 300 + 2 + 64 + 1);
  CHECK(is_dropped(unauthenticated.front()));
}

TEST_CASE("bootstrap_server: without a free descriptor it waits, and does not spin") {
  const bootstrap_server server(2, 0, secret, 30s);
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  // The lowest free descriptor was the client's: none is free below this limit.
  const rlimit none{static_cast<rlim_t>(client) + 1, limit.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const int connected = connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address);
  const std::clock_t start = std::clock();
  std::this_thread::sleep_for(1s);
  const double used = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(connected == 0);
  CHECK(used < 0.2);  // 25 waits of 20 ms with a poll each, and as many that fail to accept
  tcp_connection connection(client);
  connection.send({frame::hello, 1, detail::comm::to_bytes(hello{1, 2}) + secret});
  std::optional<frame> answer;
  for (int k = 0; k < 10'000 && !answer; ++k) {
    answer = connection.try_receive();
    std::this_thread::sleep_for(1ms);
  }
  REQUIRE(answer.has_value());
  CHECK(answer->kind == frame::ack);
}

TEST_CASE("bootstrap_server: an error at the deadline names the ranks that have not connected") {
  const bootstrap_server server(4, 0, secret, 2000ms);
  bootstrap_client a({0, 4}, join(server, 0, 4)), c({2, 4}, join(server, 2, 4));
  const std::string message = error_message([&] { c.allgather("here", 10s); });
  CHECK(contains(message,
                 "rank 2 aborted: rank 0: waited 2000 ms for rank 1, rank 3 to connect to port"));
}
