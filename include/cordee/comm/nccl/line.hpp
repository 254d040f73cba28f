// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A line between two processes: short frames over TCP, in order, heard without waiting.
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

#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI::detail {

struct frame {
  enum kind : std::int32_t { hello, welcome, gather, gathered, failed, stalled, left } what;
  std::int32_t rank;
  std::string words;
};

/// One end. It is over when the other one has hung up, does not read, or does not speak as we do.
class line {
 public:
  line() = default;
  explicit line(int socket) : socket_(socket) {
    const int yes = 1;
    const timeval patience{2, 0};  // of connect, too
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  line(line&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), come_(std::move(other.come_)) {}
  line& operator=(line&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(come_, other.come_);
    return *this;
  }
  ~line() { hang_up(); }

  /// A line that is over, where nobody answers.
  [[gnu::cold]] static line to(const std::string& host, int port) {
    addrinfo wanted{}, *found = nullptr;
    wanted.ai_family = AF_INET;
    wanted.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), text(port).c_str(), &wanted, &found) != 0) return {};
    line made;
    for (const addrinfo* at = found; at != nullptr && made.over(); at = at->ai_next) {
      line one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (!one.over() && connect(one.socket_, at->ai_addr, at->ai_addrlen) == 0)
        made = std::move(one);
    }
    freeaddrinfo(found);
    return made;
  }

  [[nodiscard]] bool over() const { return socket_ < 0; }
  [[nodiscard]] int descriptor() const { return socket_; }

  [[gnu::cold]] void say(const frame& f) {
    const head h{mark, f.what, f.rank, static_cast<std::uint32_t>(f.words.size())};
    std::string all(sizeof h, '\0');
    std::memcpy(all.data(), &h, sizeof h);
    all += f.words;
    for (std::size_t said = 0; said < all.size() && !over();) {
      const auto n = send(socket_, all.data() + said, all.size() - said, MSG_NOSIGNAL);
      if (n > 0)
        said += static_cast<std::size_t>(n);
      else if (errno != EINTR)
        hang_up();
    }
  }
  /// The next frame, if it has come whole; what came before the line was over can still be heard.
  std::optional<frame> hear() {
    char room[4096];
    while (!over()) {
      const auto n = recv(socket_, room, sizeof room, MSG_DONTWAIT);
      if (n > 0)
        come_.append(room, static_cast<std::size_t>(n));
      else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        break;
      else if (n == 0 || errno != EINTR)
        hang_up();
    }
    head h;
    if (come_.size() < sizeof h) return {};
    std::memcpy(&h, come_.data(), sizeof h);
    if (h.mark != mark || h.size > longest) {
      hang_up();
      come_.clear();
      return {};
    }
    if (come_.size() < sizeof h + h.size) return {};
    frame f{h.what, h.rank, come_.substr(sizeof h, h.size)};
    come_.erase(0, sizeof h + h.size);
    return f;
  }

  void hang_up() {
    if (!over()) close(socket_);
    socket_ = -1;
  }

 private:
  struct head {
    std::uint32_t mark;
    frame::kind what;
    std::int32_t rank;
    std::uint32_t size;
  };
  static constexpr std::uint32_t mark = 0x63647231, longest = 1u << 26;

  int socket_ = -1;
  std::string come_;
};

/// Where lines begin: a port of this machine, chosen by the system if it is 0.
class doorstep {
 public:
  explicit doorstep(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t size = sizeof at;
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    if (bind(socket_, address, sizeof at) != 0 || listen(socket_, 1024) != 0) refuse(port, errno);
    getsockname(socket_, address, &size);
    port_ = ntohs(at.sin_port);
  }
  doorstep(const doorstep&) = delete;
  doorstep& operator=(const doorstep&) = delete;
  ~doorstep() { close(socket_); }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int descriptor() const { return socket_; }
  /// Somebody who is there already; otherwise it waits.
  [[nodiscard]] line let_in() const {
    const int one = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    return one < 0 ? line{} : line(one);
  }

 private:
  [[noreturn, gnu::cold]] void refuse(int port, int why) const {
    close(socket_);
    throw error(text("ranks cannot meet on port ", port, " of this machine: ", std::strerror(why),
                     why == EADDRINUSE ? "; say another MASTER_PORT, end the program that has it, "
                                         "or let a port be chosen: by_file{\"a shared path\"}"
                                       : ""));
  }

  int socket_, port_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail
