// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A port for rank 0's server, which no other program gets between its choice and its use.
#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace support {

/// A port of the loopback that the system chooses, and gives to no one else while this lives. A
/// process that asks for it with SO_REUSEADDR, as rank 0's server does, may listen there.
class reserved_port {
 public:
  /// `family`: of the loopback's address, AF_INET or AF_INET6.
  explicit reserved_port(int family = AF_INET) : descriptor_(::socket(family, SOCK_STREAM, 0)) {
    const int yes = 1;
    sockaddr_in four{};
    sockaddr_in6 six{};
    four.sin_family = AF_INET;
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_loopback;
    const bool is_four = family == AF_INET;
    auto* const address =
        is_four ? reinterpret_cast<sockaddr*>(&four) : reinterpret_cast<sockaddr*>(&six);
    socklen_t size = is_four ? sizeof four : sizeof six;
    if (::setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        ::bind(descriptor_, address, size) != 0 ||
        ::getsockname(descriptor_, address, &size) != 0) {
      const std::string why = std::strerror(errno);
      ::close(descriptor_);
      throw std::runtime_error("no port: " + why);
    }
    port = ntohs(is_four ? four.sin_port : six.sin6_port);
  }
  reserved_port(const reserved_port&) = delete;
  reserved_port& operator=(const reserved_port&) = delete;
  ~reserved_port() { ::close(descriptor_); }

  int port = 0;

 private:
  const int descriptor_;
};

}  // namespace support
