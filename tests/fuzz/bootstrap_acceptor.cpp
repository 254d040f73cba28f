// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is what processes do at the port of a bootstrap server of three ranks, in order; each
// step is two bytes, what it does and a number:
//
//   connect  as many unauthenticated connections, modulo 8
//   join     as the rank of that number, with the secret; 3 is no rank, from 4 on the run's size is
//            wrong
//   send     the next bytes, from the connection of that number modulo their count
//   close    that connection
//   end      its sending half
//   time     passes, in 40 ms
//   turn     of the server; else it has none before the end
//   full     a turn in which this process has no file descriptor left
//
// Strangers get no answer but one refusal of a hello, and the server has room for few of them. In
// the end ranks that are missing can still join; then nothing listens any more, and the
// unauthenticated connections are closed.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/comm/transports/bootstrap/acceptor.hpp>

#include "tests/fuzz/memory_file.hpp"
#include "tests/support/local_listener.hpp"

using namespace cordee::detail::comm;

namespace {

constexpr int ranks = 3;
constexpr std::size_t unauthenticated = 2;  // for which the server has room
constexpr std::size_t most_waiting = 24;    // fewer than the listener's backlog
const std::string secret = "the run's secret";

struct process {
  int socket;
  bool known;  // it may have sent the secret
  bool open = true;
  std::string sent{};
};

struct server {
  support::local_listener port;
  listener door{port.socket()};
  bootstrap_relay relay{ranks, secret, std::chrono::seconds(5), unauthenticated};
  bootstrap_acceptor acceptor{door, relay};
  bootstrap_relay::time_point now{};
  std::vector<process> processes;

  server() { fuzz::require(port.works(), "a socket listens"); }
  ~server() {
    for (const process& p : processes)
      if (p.open) ::close(p.socket);
  }

  void turn() {
    acceptor.wait(0);
    acceptor.receive(now);
    std::vector<pollfd> served;
    relay.append_to(served);
    fuzz::require(served.size() <= 2 * ranks + unauthenticated,
                  "unauthenticated peers have few of its descriptors");
  }
  bool connect(bool known) {
    if (processes.size() >= most_waiting) return false;
    const int socket = port.connect();
    fuzz::require((socket >= 0) != door.is_closed(), "it listens until all have joined");
    if (socket >= 0) processes.push_back({socket, known});
    return socket >= 0;
  }
  void send(process& p, std::string_view bytes) const {
    if (!p.open) return;
    (void)::send(p.socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    p.sent += bytes;
    p.known = p.known || p.sent.find(secret) != std::string::npos;
  }
  void join(int rank, int size) {
    if (!connect(true)) return;
    tcp_connection connection(::dup(processes.back().socket));
    connection.send({frame::hello, rank, to_bytes(hello{rank, size}) + secret});
  }
  [[nodiscard]] bool missing(int rank) const {
    return relay.not_joined().find(cordee::concat("rank ", rank)) != std::string::npos;
  }
  [[nodiscard]] bool has_waiting() const {
    pollfd arrival{door.descriptor(), POLLIN, 0};
    return !door.is_closed() && ::poll(&arrival, 1, 0) > 0;
  }
  void finish() {
    for (std::size_t k = 0; k <= most_waiting && has_waiting(); ++k) turn();
    fuzz::require(!has_waiting(), "it accepts one in each turn, but for one without descriptors");
    now += std::chrono::seconds(6);
    for (int k = 0; k < 2; ++k) turn();
    processes.reserve(processes.size() + ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      if (!missing(rank)) continue;
      tcp_connection connection(port.connect());
      fuzz::require(!connection.is_closed(), "it listens while a rank is missing");
      connection.send({frame::hello, rank, to_bytes(hello{rank, ranks}) + secret});
      for (int k = 0; k < 3; ++k) turn();
      const auto answer = connection.try_receive();
      fuzz::require(answer && answer->kind == frame::ack, "a missing rank can join");
      processes.push_back({::dup(connection.descriptor()), true});
    }
    turn();
    fuzz::require(relay.not_joined().empty() && door.is_closed() && port.connect() < 0,
                  "nothing listens when all have joined");
  }
  void check_strangers() const {
    for (const process& p : processes) {
      if (!p.open || p.known) continue;
      tcp_connection connection(::dup(p.socket));
      const auto answer = connection.try_receive();
      fuzz::require(!answer || answer->kind == frame::refused, "a stranger gets no answer");
      fuzz::require(!connection.try_receive(), "it gets one refusal");
      fuzz::require(connection.is_closed(), "a stranger's connection is closed");
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  server s;
  const auto chosen = [&](std::uint8_t k) -> process* {
    return s.processes.empty() ? nullptr : &s.processes[k % s.processes.size()];
  };
  for (std::size_t at = 0; at + 2 <= size;) {
    const std::uint8_t what = data[at] % 8, number = data[at + 1];
    at += 2;
    process* const p = chosen(number);
    if (what == 0) {
      for (int k = 0; k < number % 8; ++k) s.connect(false);
    } else if (what == 1) {
      s.join(number % 4, number % 8 < 4 ? ranks : ranks + 1);
    } else if (what == 2 && p != nullptr) {
      const std::size_t length = std::min<std::size_t>(number, size - at);
      s.send(*p, {reinterpret_cast<const char*>(data) + at, length});
      at += length;
    } else if (what == 3 && p != nullptr && p->open) {
      ::close(p->socket);
      p->open = false;
    } else if (what == 4 && p != nullptr && p->open) {
      ::shutdown(p->socket, SHUT_WR);
    } else if (what == 5) {
      s.now += std::chrono::milliseconds(40 * number);
    } else if (what == 6) {
      for (int k = 0; k <= number % 8; ++k) s.turn();
    } else if (what == 7) {
      const support::no_descriptors none;
      s.turn();
    }
  }
  s.finish();
  s.check_strangers();
  return 0;
}
