// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whether this host has IPv6's loopback, which containers may lack; where not, a test says that it
// is skipped.
#pragma once

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace support {

inline bool has_ipv6() {
  const int s = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 own{};
  own.sin6_family = AF_INET6;
  own.sin6_addr = in6addr_loopback;
  const bool has = s >= 0 && ::bind(s, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0;
  if (s >= 0) ::close(s);
  if (!has) MESSAGE("skipped: this host has no ::1");
  return has;
}

}  // namespace support
