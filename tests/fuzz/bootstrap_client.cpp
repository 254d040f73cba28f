// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is what a bootstrap server sends to a rank, in two pieces, before it closes the
// connection. Its first byte gives the rank and the number of ranks, the second the first piece's
// share: the client gathers as many strings as there are ranks, or throws an error.
#include <cordee/comm/transports/bootstrap/client.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::comm;

namespace {

/// Unless the client has closed the connection.
void send(int socket, std::span<const std::uint8_t> bytes) {
  const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  fuzz::require(sent == static_cast<ssize_t>(bytes.size()) || errno == EPIPE,
                "a socket takes a few kilobytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const int ranks = 1 + data[0] % 4, own = data[0] / 4 % ranks;
  const std::span<const std::uint8_t> bytes(data + 2, size - 2);
  const std::size_t cut = bytes.size() * data[1] / 255;
  int sockets[2];
  fuzz::require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, "a socket");
  tcp_connection server(sockets[1]);
  bootstrap_client client({own, ranks, "a test"}, tcp_connection(sockets[0]));
  const auto gather = [&] {
    try {
      const auto parts = client.allgather("own", std::chrono::milliseconds(0));
      fuzz::require(static_cast<int>(parts.size()) == ranks, "a string of every rank");
    } catch (const error&) {
    }
  };
  send(sockets[1], bytes.first(cut));
  gather();
  send(sockets[1], bytes.subspan(cut));
  gather();
  server.close();
  client.poll();
  const std::string remaining = client.remaining();
  for (int rank = 0; rank < ranks; ++rank)
    if (client.has_left(rank))
      fuzz::require(remaining.find(concat("rank ", rank)) == std::string::npos, "it has left");
  fuzz::require(client.has_left(0) || client.first_failure.happened(),
                "a server that ends without leaving is a failure");
  (void)client.first_failure.describe();
  client.leave();
  return 0;
}
