// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A listening socket of this process alone: what is sent has arrived when send returns. And a
// process that has no descriptor left.
#pragma once

#include <cstddef>

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cordee/comm/transports/bootstrap/tcp_connection.hpp>

namespace support {

/// At an address that the system chooses.
class local_listener {
 public:
  explicit local_listener(int backlog = 256)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un any{};
    any.sun_family = AF_UNIX;
    size_ = sizeof address_;
    works_ = ::bind(socket_, reinterpret_cast<sockaddr*>(&any), sizeof any.sun_family) == 0 &&
             ::listen(socket_, backlog) == 0 &&
             ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &size_) == 0;
  }

  [[nodiscard]] bool works() const { return works_; }
  /// For one listener, which closes it.
  [[nodiscard]] cordee::detail::comm::listener::listening_socket socket() const {
    return {socket_};
  }
  /// -1 where nothing listens, or where many wait.
  [[nodiscard]] int connect() const {
    const int s = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s >= 0 && ::connect(s, reinterpret_cast<const sockaddr*>(&address_), size_) == 0) return s;
    if (s >= 0) ::close(s);
    return -1;
  }

 private:
  int socket_;
  sockaddr_un address_{};
  socklen_t size_ = 0;
  bool works_ = false;
};

/// Until its end no file can be opened.
class no_descriptors {
 public:
  no_descriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest = ::dup(0);  // poll takes no more descriptors than the limit, so not 0
    ::close(lowest);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(lowest);
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  no_descriptors(const no_descriptors&) = delete;
  no_descriptors& operator=(const no_descriptors&) = delete;
  ~no_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace support
