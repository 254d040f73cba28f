// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A control connection between two processes: short frames over TCP, in order, received without
// blocking.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cordee/comm/transports/bootstrap/socket_address.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

struct frame {
  /// left: a rank has left the run. lost: one is not connected, so it never will. refused: the
  /// hello had another secret. meet, join, world: of elastic runs (meeting_point.hpp).
  enum type : std::int32_t {
    hello,
    ack,
    allgather,
    allgathered,
    failed,
    stalled,
    left,
    lost,
    refused,
    meet,
    join,
    world
  } kind;
  std::int32_t rank;
  std::string payload;
};

/// One end. Closed on EOF or protocol error, and after a failed send or its timeout by the receive
/// that finds no more data.
class tcp_connection {
 public:
  static constexpr std::size_t longest_payload = std::size_t{1} << 26;

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

  /// To the first address of the host that accepts; a closed connection where none does, and the
  /// reason in `why`.
  [[gnu::cold]] static tcp_connection connect(const std::string& host, int port,
                                              std::string* why = nullptr) {
    const resolved_host found = resolve(host, port);
    std::string reason = found.failure;
    for (const socket_address& a : found.addresses) {
      tcp_connection candidate(socket(a.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (!candidate.is_closed() && ::connect(candidate.socket_, a.get(), a.size()) == 0)
        return candidate;
      reason = errno == EINPROGRESS ? "no answer" : std::strerror(errno);  // the timeout's number
    }
    if (why != nullptr) *why = reason;
    return {};
  }
  /// Begins to connect to an address ("10.0.0.7"), without blocking. Before has_connected() is true
  /// nothing can be sent or received.
  [[nodiscard, gnu::cold]] static tcp_connection begin_connect(const std::string& address,
                                                               int port) {
    const resolved_host peer = resolve(address, port, AI_NUMERICHOST);
    if (peer.addresses.empty()) return {};
    const socket_address& a = peer.addresses.front();
    tcp_connection result(socket(a.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!result.is_closed() && ::connect(result.socket_, a.get(), a.size()) != 0 &&
        errno != EINPROGRESS)
      result.close();
    return result;
  }
  /// Whether what begin_connect began has succeeded; closes the connection where it has failed.
  [[nodiscard, gnu::cold]] bool has_connected() {
    pollfd end{socket_, POLLOUT, 0};
    if (is_closed() || ::poll(&end, 1, 0) <= 0) return false;
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(socket_, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure != 0) {
      close();
      return false;
    }
    fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) & ~O_NONBLOCK);  // send() blocks
    return true;
  }

  [[nodiscard]] bool is_closed() const { return socket_ < 0; }
  [[nodiscard]] int descriptor() const { return socket_; }
  /// The address of this end, and of the other one; "" where it is closed.
  [[nodiscard]] std::string local_address() const {
    return socket_address::of(getsockname, socket_).host();
  }
  [[nodiscard]] std::string peer_address() const {
    return socket_address::of(getpeername, socket_).host();
  }

  /// No effect on a closed connection. After a failure frames that have arrived can still be
  /// received, among them the peer's last ones.
  [[gnu::cold]] void send(const frame& f) {
    const header h{magic, f.kind, f.rank, static_cast<std::uint32_t>(f.payload.size())};
    std::string bytes(sizeof h, '\0');
    std::memcpy(bytes.data(), &h, sizeof h);
    bytes += f.payload;
    for (std::size_t sent = 0; sent < bytes.size() && !is_closed();) {
      const auto n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n > 0)
        sent += static_cast<std::size_t>(n);
      else if (errno != EINTR) {
        ::shutdown(socket_, SHUT_RDWR);
        return;
      }
    }
  }
  /// The next frame, if it has arrived completely; frames that arrived before the connection closed
  /// are still returned. No more is read than the header announces, and that is at most `longest`
  /// bytes: a longer frame closes the connection.
  std::optional<frame> try_receive(std::size_t longest = longest_payload) {
    if (!receive_up_to(sizeof(header))) return {};
    header h;
    std::memcpy(&h, received_.data(), sizeof h);
    if (h.magic != magic || h.size > longest) {
      close();
      received_.clear();
      return {};
    }
    if (!receive_up_to(sizeof h + h.size)) return {};
    frame f{h.kind, h.rank, received_.substr(sizeof h)};
    received_.clear();
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
  static constexpr std::uint32_t magic = 0x63647232;

  // Whether `size` bytes of the frame are there.
  bool receive_up_to(std::size_t size) {
    char buffer[4096];
    while (received_.size() < size && !is_closed()) {
      const std::size_t missing = std::min(sizeof buffer, size - received_.size());
      const auto n = recv(socket_, buffer, missing, MSG_DONTWAIT);
      if (n > 0)
        received_.append(buffer, static_cast<std::size_t>(n));
      else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        break;
      else if (n == 0 || errno != EINTR)
        close();
    }
    return received_.size() >= size;
  }

  int socket_ = -1;
  std::string received_;  // of one frame
};

/// Accepts connections on a port of this host; the system chooses it if it is 0.
class listener {
 public:
  /// Only at the address that `host` names, if that is an address or "localhost", or a name that
  /// resolves to an address of this host's network; otherwise at all addresses of the families that
  /// the name has. (On many hosts their own name is the loopback's, and in a cluster MASTER_ADDR
  /// may be an address that is translated.)
  explicit listener(int port, const std::string& host = {}) {
    const resolved_host found = host.empty() ? resolved_host{} : resolve(host, port);
    const bool is_address = resolve(host, port, AI_NUMERICHOST).failure.empty();
    bool has_four_only = !found.addresses.empty();
    for (const socket_address& a : found.addresses) {
      has_four_only = has_four_only && a.family() == AF_INET;
      // A name of the loopback is no address for other hosts, so it stands for all.
      const bool is_own = is_address || host == "localhost" || !is_loopback(a.host());
      if (is_closed() && is_own) bind_to(a, port);
    }
    if (is_closed() && !has_four_only) bind_to(socket_address::all(AF_INET6, port), port);
    if (is_closed() && !bind_to(socket_address::all(AF_INET, port), port)) fail(port, errno);
    if (::listen(socket_, 1024) != 0) fail(port, errno);
    const socket_address bound = socket_address::of(getsockname, socket_);
    port_ = bound.port();
    local_address_ = bound.host();
    if (local_address_ == "::" || local_address_ == "0.0.0.0") local_address_ = "127.0.0.1";
  }
  /// Takes a socket of any family that listens already.
  struct listening_socket {
    int descriptor;
  };
  explicit listener(listening_socket s) : socket_(s.descriptor) {}
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener() { close(); }

  [[nodiscard]] int port() const { return port_; }
  /// An address at which processes of this host can connect.
  [[nodiscard]] const std::string& local_address() const { return local_address_; }
  [[nodiscard]] int descriptor() const { return socket_; }
  [[nodiscard]] bool is_closed() const { return socket_ < 0; }
  /// A closed connection where none has arrived within `timeout` ms.
  [[nodiscard]] tcp_connection accept(int timeout = 0) const {
    pollfd arrival{socket_, POLLIN, 0};
    if (timeout > 0) ::poll(&arrival, 1, timeout);
    const int accepted = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    return accepted < 0 ? tcp_connection{} : tcp_connection(accepted);
  }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

 private:
  [[noreturn, gnu::cold]] void fail(int port, int reason) {
    close();
    throw error(concat("cannot listen on port ", port, " of this host: ", std::strerror(reason),
                       reason == EADDRINUSE
                           ? "; set another MASTER_PORT, end the program that uses it, "
                             "or let the system choose one: rendezvous_file{\"a shared path\"}"
                           : ""));
  }

  // False where this host has no such address, or nothing of its family.
  [[gnu::cold]] bool bind_to(const socket_address& address, int port) {
    socket_ = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_ >= 0) {
      const int yes = 1, no = 0;
      setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      if (address.family() == AF_INET6)  // "::" is IPv4's, too
        setsockopt(socket_, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
      if (bind(socket_, address.get(), address.size()) == 0) return true;
    }
    const int reason = errno;
    if (reason != EADDRNOTAVAIL && reason != EAFNOSUPPORT) fail(port, reason);
    close();
    errno = reason;
    return false;
  }

  int socket_ = -1, port_ = 0;
  std::string local_address_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
