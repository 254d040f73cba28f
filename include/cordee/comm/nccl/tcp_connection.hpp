// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A control connection between two processes: short frames over TCP, in order, received without
// blocking.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

struct frame {
  enum type : std::int32_t { hello, ack, allgather, allgathered, failed, stalled, left } kind;
  std::int32_t rank;
  std::string payload;
};

/// One end. Closed on EOF, send timeout or protocol error.
class tcp_connection {
 public:
  tcp_connection() = default;
  explicit tcp_connection(int socket) : socket_(socket) {
    const int yes = 1;
    const timeval timeout{2, 0};  // of connect, too
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  }
  tcp_connection(tcp_connection&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), received_(std::move(other.received_)) {}
  tcp_connection& operator=(tcp_connection&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(received_, other.received_);
    return *this;
  }
  ~tcp_connection() { close(); }

  /// A closed connection where nothing accepts.
  [[gnu::cold]] static tcp_connection connect(const std::string& host, int port) {
    addrinfo hints{}, *addresses = nullptr;
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), concat(port).c_str(), &hints, &addresses) != 0) return {};
    tcp_connection result;
    for (const addrinfo* a = addresses; a != nullptr && result.is_closed(); a = a->ai_next) {
      tcp_connection candidate(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (!candidate.is_closed() && ::connect(candidate.socket_, a->ai_addr, a->ai_addrlen) == 0)
        result = std::move(candidate);
    }
    freeaddrinfo(addresses);
    return result;
  }

  [[nodiscard]] bool is_closed() const { return socket_ < 0; }
  [[nodiscard]] int descriptor() const { return socket_; }

  /// No effect on a closed connection.
  [[gnu::cold]] void send(const frame& f) {
    const header h{magic, f.kind, f.rank, static_cast<std::uint32_t>(f.payload.size())};
    std::string bytes(sizeof h, '\0');
    std::memcpy(bytes.data(), &h, sizeof h);
    bytes += f.payload;
    for (std::size_t sent = 0; sent < bytes.size() && !is_closed();) {
      const auto n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n > 0)
        sent += static_cast<std::size_t>(n);
      else if (errno != EINTR)
        close();
    }
  }
  /// The next frame, if it has arrived completely; frames that arrived before the connection closed
  /// are still returned.
  std::optional<frame> try_receive() {
    char buffer[4096];
    while (!is_closed()) {
      const auto n = recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0)
        received_.append(buffer, static_cast<std::size_t>(n));
      else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        break;
      else if (n == 0 || errno != EINTR)
        close();
    }
    header h;
    if (received_.size() < sizeof h) return {};
    std::memcpy(&h, received_.data(), sizeof h);
    if (h.magic != magic || h.size > longest_payload) {
      close();
      received_.clear();
      return {};
    }
    if (received_.size() < sizeof h + h.size) return {};
    frame f{h.kind, h.rank, received_.substr(sizeof h, h.size)};
    received_.erase(0, sizeof h + h.size);
    return f;
  }

  void close() {
    if (!is_closed()) ::close(socket_);
    socket_ = -1;
  }

 private:
  struct header {
    std::uint32_t magic;
    frame::type kind;
    std::int32_t rank;
    std::uint32_t size;
  };
  static constexpr std::uint32_t magic = 0x63647231, longest_payload = 1u << 26;

  int socket_ = -1;
  std::string received_;
};

/// Accepts connections on a port of this host; the system chooses it if it is 0.
class listener {
 public:
  explicit listener(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    any.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t size = sizeof any;
    auto* const address = reinterpret_cast<sockaddr*>(&any);
    if (bind(socket_, address, sizeof any) != 0 || listen(socket_, 1024) != 0) fail(port, errno);
    getsockname(socket_, address, &size);
    port_ = ntohs(any.sin_port);
  }
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener() { ::close(socket_); }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int descriptor() const { return socket_; }
  /// Blocks until there is a connection.
  [[nodiscard]] tcp_connection accept() const {
    const int accepted = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    return accepted < 0 ? tcp_connection{} : tcp_connection(accepted);
  }

 private:
  [[noreturn, gnu::cold]] void fail(int port, int reason) const {
    ::close(socket_);
    throw error(concat("cannot listen on port ", port, " of this host: ", std::strerror(reason),
                       reason == EADDRINUSE
                           ? "; set another MASTER_PORT, end the program that uses it, "
                             "or let the system choose one: rendezvous_file{\"a shared path\"}"
                           : ""));
  }

  int socket_, port_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
