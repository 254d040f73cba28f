// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is what a process sends to a bootstrap server of three ranks, of which rank 0 is
// connected, behind a byte of flags:
//
//   1  the process has joined as rank 1 before, with the secret; else it is a stranger, who gets no
//      answer but one refusal of a hello
//   2  it stays connected; else it closes its end
//
// Either way the server goes on: a stranger has been dropped when the time limit has passed,
// another rank joins, and gets rank 0's message. The server's relay runs in this thread, on socket
// pairs and a clock that the target sets: its thread, its port and its waits are tested elsewhere.
#include <chrono>
#include <optional>
#include <vector>

#include <cordee/comm/transports/bootstrap/relay.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::comm;

namespace {

constexpr int ranks = 3;
constexpr std::chrono::seconds hello_timeout(5);
const std::string secret = "the run's secret";

struct server {
  bootstrap_relay relay{ranks, secret, hello_timeout};
  bootstrap_relay::time_point now{};

  tcp_connection connect() {
    int sockets[2];
    fuzz::require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, "a socket");
    const int bytes = 1 << 20;  // no send of the relay has to wait for a receiver
    setsockopt(sockets[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    relay.add(tcp_connection(sockets[1]), now);
    return tcp_connection(sockets[0]);
  }
  tcp_connection join(int rank) {
    tcp_connection connection = connect();
    connection.send({frame::hello, rank, to_bytes(hello{rank, ranks}) + secret});
    relay.receive(now);
    const auto answer = connection.try_receive();
    fuzz::require(answer && answer->kind == frame::ack, "a rank with the secret can join");
    return connection;
  }
  [[nodiscard]] bool has_joined(int rank) const {
    return relay.not_joined().find(concat("rank ", rank)) == std::string::npos;
  }
};

/// What has arrived; nothing if the server has not closed the connection behind it.
std::optional<std::vector<frame>> frames_until_closed(tcp_connection& connection) {
  std::vector<frame> frames;
  while (const auto f = connection.try_receive()) frames.push_back(*f);
  if (!connection.is_closed()) return {};
  return frames;
}
bool is_refusal_at_most(const std::vector<frame>& frames) {
  return frames.empty() || (frames.size() == 1 && frames.front().kind == frame::refused);
}

bool receives(tcp_connection& connection, frame::type kind, int rank, std::string_view payload) {
  while (const auto f = connection.try_receive())
    if (f->kind == kind && f->rank == rank && f->payload == payload) return true;
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const bool joins = (data[0] & 1) != 0, stays = (data[0] & 2) != 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  server s;
  tcp_connection first = s.join(0);
  tcp_connection process = joins ? s.join(1) : s.connect();
  const ssize_t sent = ::send(process.descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  fuzz::require(sent == static_cast<ssize_t>(bytes.size()), "a socket takes a few kilobytes");
  if (!stays) ::shutdown(process.descriptor(), SHUT_WR);
  s.relay.receive(s.now);
  s.now += hello_timeout + std::chrono::milliseconds(1);
  if (stays) s.relay.receive(s.now);

  const bool can_have_joined = joins || bytes.find(secret) != bytes.npos;
  const auto answered = frames_until_closed(process);
  fuzz::require(answered || (stays && can_have_joined), "the server closes what has ended");
  fuzz::require(can_have_joined || is_refusal_at_most(*answered), "a stranger gets no answer");
  fuzz::require(s.relay.refusals().size() < 200, "and fills no log");

  if (can_have_joined && s.has_joined(2)) return 0;
  tcp_connection last = s.join(2);
  first.send({frame::left, 0, "its last message"});
  s.relay.receive(s.now);
  fuzz::require(receives(last, frame::left, 0, "its last message"), "messages are forwarded");
  return 0;
}
