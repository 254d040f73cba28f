// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is what a process sends to a bootstrap server of three ranks, of which rank 0 is
// connected, before it closes its end; behind a first byte. If that is odd, the process has joined
// as rank 1 before, with the secret; else it is a stranger, who gets no answer. Either way the
// server goes on: another rank joins, and gets rank 0's message.
#include <array>
#include <optional>

#include <cordee/comm/nccl/bootstrap_server.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::comm;

namespace {

constexpr int ranks = 3;
constexpr std::chrono::seconds deadline(10);
const std::string secret = "the run's secret";

tcp_connection connect(const bootstrap_server& server) {
  tcp_connection connection = tcp_connection::connect("127.0.0.1", server.port());
  fuzz::require(!connection.is_closed(), "the server listens");
  return connection;
}

/// The next frame that the server sends. Blocks until it is there.
frame next(tcp_connection& connection, const char* waits_for) {
  for (;;) {
    if (auto f = connection.try_receive()) return *f;
    fuzz::require(!connection.is_closed(), "the server keeps the connections of other ranks");
    pollfd arrival{connection.descriptor(), POLLIN, 0};
    fuzz::require(::poll(&arrival, 1, 10'000) > 0, waits_for);
  }
}

tcp_connection join(const bootstrap_server& server, int rank) {
  tcp_connection connection = connect(server);
  connection.send({frame::hello, rank, to_bytes(hello{rank, ranks}) + secret});
  fuzz::require(next(connection, "the server answers a hello").kind == frame::ack,
                "a rank with the secret can join");
  return connection;
}

/// How many bytes the server sends until it closes the connection. Blocks until then.
std::size_t bytes_until_closed(const tcp_connection& connection) {
  std::array<char, 4096> buffer;
  for (std::size_t bytes = 0;;) {
    pollfd arrival{connection.descriptor(), POLLIN, 0};
    fuzz::require(::poll(&arrival, 1, 10'000) > 0, "the server closes what is closed to it");
    const ssize_t n = ::recv(connection.descriptor(), buffer.data(), buffer.size(), 0);
    if (n <= 0) return bytes;
    bytes += static_cast<std::size_t>(n);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const bool joins = data[0] % 2 == 1;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::optional<tcp_connection> first, last;
  {
    const bootstrap_server server(ranks, 0, secret, deadline, "127.0.0.1", deadline);
    first = join(server, 0);
    {
      const tcp_connection process = joins ? join(server, 1) : connect(server);
      (void)::send(process.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ::shutdown(process.descriptor(), SHUT_WR);
      const std::size_t answered = bytes_until_closed(process);
      const bool stranger = !joins && bytes.find(secret) == bytes.npos;
      fuzz::require(!stranger || answered == 0, "a stranger gets no answer");
    }
    last = join(server, 2);
    first->send({frame::left, 0, "its last message"});
    for (;;) {
      const frame f = next(*last, "the server forwards messages");
      if (f.kind == frame::left && f.rank == 0 && f.payload == "its last message") break;
    }
    // The server's thread looks at whether it is to end every 20 ms, and when something happens.
    first.reset();
    last.reset();
  }
  return 0;
}
