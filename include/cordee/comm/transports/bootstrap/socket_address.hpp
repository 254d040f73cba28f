// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Addresses of IPv4 and IPv6: of names, of sockets, and as text.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cordee/core/concat.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// As text, with the name of a link-local address's interface ("fe80::1%eth0") and its terminator.
inline constexpr std::size_t address_text_size = 64;

/// Whether a numeric address is this host's alone.
[[nodiscard]] inline bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}
/// "10.0.0.7:29500", "[::1]:29500".
[[nodiscard, gnu::cold]] inline std::string with_port(std::string_view address, int port) {
  const bool has_colon = address.find(':') != std::string_view::npos;
  return concat(has_colon ? "[" : "", address, has_colon ? "]:" : ":", port);
}
/// "::1" of "[::1]"; another name as it is.
[[nodiscard, gnu::cold]] inline std::string without_brackets(const std::string& host) {
  const bool has_brackets = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  return has_brackets ? host.substr(1, host.size() - 2) : host;
}

class socket_address {
 public:
  socket_address() = default;
  socket_address(const sockaddr* address, socklen_t size) : size_(size) {
    std::memcpy(&storage_, address, std::min<std::size_t>(size, sizeof storage_));
  }
  /// All addresses of this host: IPv6's with IPv4's, or IPv4's alone.
  [[nodiscard, gnu::cold]] static socket_address all(int family, int port) {
    sockaddr_in four{};
    sockaddr_in6 six{};
    four.sin_family = AF_INET;
    six.sin6_family = AF_INET6;
    four.sin_port = six.sin6_port = htons(static_cast<std::uint16_t>(port));
    if (family == AF_INET6) return {reinterpret_cast<const sockaddr*>(&six), sizeof six};
    return {reinterpret_cast<const sockaddr*>(&four), sizeof four};
  }
  /// What getsockname or getpeername answers.
  template <class Call>
  [[nodiscard, gnu::cold]] static socket_address of(const Call& call, int socket) {
    socket_address result;
    result.size_ = sizeof result.storage_;
    if (call(socket, reinterpret_cast<sockaddr*>(&result.storage_), &result.size_) != 0) return {};
    return result;
  }

  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const { return size_; }
  [[nodiscard]] int port() const {
    if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(get())->sin6_port);
    return family() == AF_INET ? ntohs(reinterpret_cast<const sockaddr_in*>(get())->sin_port) : 0;
  }
  /// "10.0.0.7", "::1", "fe80::1%eth0", and "10.0.0.7" for IPv6's "::ffff:10.0.0.7"; "" where it is
  /// of no network.
  [[nodiscard, gnu::cold]] std::string host() const {
    char text[NI_MAXHOST] = "";
    if (family() != AF_INET && family() != AF_INET6) return {};
    if (getnameinfo(get(), size_, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return {};
    const std::string_view mapped = "::ffff:";
    std::string host = text;
    if (host.starts_with(mapped) && host.find('.') != std::string::npos)
      host.erase(0, mapped.size());
    return host;
  }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// What a name or an address stands for.
struct resolved_host {
  std::vector<socket_address> addresses;  // IPv4's first
  std::string failure;                    // why there are none

  /// Whether all are this host's alone.
  [[nodiscard, gnu::cold]] bool has_loopback_only() const {
    return !addresses.empty() && std::ranges::all_of(addresses, [](const socket_address& a) {
      return is_loopback(a.host());
    });
  }
};

/// IPv4 comes first, for a cluster's hosts may have IPv6 addresses that do not reach each other.
/// `flags`: getaddrinfo's, such as AI_NUMERICHOST for addresses alone.
[[nodiscard, gnu::cold]] inline resolved_host resolve(const std::string& host, int port,
                                                      int flags = 0) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  resolved_host result;
  if (host == "*") {  // which glibc answers with the loopback
    result.failure = gai_strerror(EAI_NONAME);
    return result;
  }
  const int status =
      getaddrinfo(without_brackets(host).c_str(), concat(port).c_str(), &hints, &found);
  if (status != 0) {
    result.failure = status == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(status);
    return result;
  }
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next)
    if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
      result.addresses.emplace_back(a->ai_addr, a->ai_addrlen);
  freeaddrinfo(found);
  std::ranges::stable_partition(result.addresses,
                                [](const socket_address& a) { return a.family() == AF_INET; });
  if (result.addresses.empty()) result.failure = "it has no address of IPv4 or IPv6";
  return result;
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
