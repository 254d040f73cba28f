// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The socket at which a rank receives from all, and the connections to it.
//
// Any process that reaches the address may connect. Its messages count once its first one, the
// hello, has the run's secret and a rank that has not joined yet; otherwise it is refused: its
// address is printed, and what it sends is dropped. libzmq drops a connection that violates its
// protocol, sends nothing for five seconds, or announces more than a chunk.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

#include <cordee/comm/transports/bootstrap/relay.hpp>
#include <cordee/comm/transports/bootstrap/socket_address.hpp>
#include <cordee/comm/transports/zeromq/frame.hpp>
#include <cordee/comm/transports/zeromq/socket.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class zeromq_acceptor {
 public:
  /// Listens at a port that the system chooses.
  zeromq_acceptor(const zeromq_context& context, int rank, int ranks, const std::string& address,
                  std::string secret)
      : rank_(rank),
        secret_(std::move(secret)),
        descriptors_(static_cast<std::size_t>(ranks), -1),
        socket_(context, ZMQ_ROUTER),
        monitor_(context, ZMQ_PAIR) {
    socket_.set(ZMQ_LINGER, 0);
    socket_.set(ZMQ_RCVHWM, zeromq_queue_length);
    socket_.set(ZMQ_MAXMSGSIZE, static_cast<std::int64_t>(zeromq_longest_frame));
    socket_.set(ZMQ_HANDSHAKE_IVL, 5000);
    const std::string events = concat("inproc://monitor-", reinterpret_cast<std::uintptr_t>(this));
    zeromq_expects(zmq_socket_monitor(socket_.get(), events.c_str(),
                                      ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) == 0,
                   "zmq_socket_monitor");
    monitor_.set(ZMQ_LINGER, 0);
    monitor_.connect(events);
    bind_to(address);
    std::array<char, 256> bound{};
    std::size_t size = bound.size();
    zeromq_expects(zmq_getsockopt(socket_.get(), ZMQ_LAST_ENDPOINT, bound.data(), &size) == 0,
                   "zmq_getsockopt");
    const std::string_view text(bound.data());  // "tcp://127.0.0.1:40584"
    const std::size_t slashes = text.find("//"), colon = text.rfind(':');
    address_ = without_brackets(std::string(text.substr(slashes + 2, colon - slashes - 2)));
    port_ = std::atoi(bound.data() + colon + 1);
    size = sizeof descriptor_;
    zeromq_expects(zmq_getsockopt(socket_.get(), ZMQ_FD, &descriptor_, &size) == 0,
                   "zmq_getsockopt");
  }

  /// "0.0.0.0" or "::" where it listens at all addresses of this host.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] int port() const { return port_; }
  /// Blocks until something may have arrived since the last receive(), for less than 1 s. By any
  /// thread, also beside others: it may miss what another one has received.
  void await(std::chrono::microseconds longest) const {
    pollfd arrival{descriptor_, POLLIN, 0};
    const timespec limit{0, longest.count() * 1000};
    ::ppoll(&arrival, 1, &limit, nullptr);
  }
  /// "rank 1, rank 3"; empty if all have joined.
  [[nodiscard]] std::string not_joined() const {
    std::string text;
    for (std::size_t rank = 0; rank < descriptors_.size(); ++rank)
      if (descriptors_[rank] < 0) text += concat(text.empty() ? "rank " : ", rank ", rank);
    return text;
  }
  /// The ranks whose connections have closed.
  [[nodiscard]] const std::vector<int>& disconnected_ranks() const { return disconnected_ranks_; }

  /// f(rank, frame) for every frame of a rank that has arrived.
  template <class F>
  void receive(const F& f) {
    zeromq_message connection, m;
    while (socket_.try_receive(connection)) {
      if (!connection.is_followed() || !socket_.try_receive(m)) continue;
      if (m.is_followed()) m = skip_rest();
      const auto [found, is_first] =
          connections_.try_emplace(std::string(connection.text()), unknown);
      if (is_first)
        found->second = admit(std::move(m));
      else if (found->second != unknown)
        f(found->second, std::move(m));
    }
  }

  /// Notes connections that were made and closed since. Prints those that closed without a hello.
  [[gnu::cold]] void watch() {
    zeromq_message event, endpoint;
    while (monitor_.try_receive(event)) {
      std::uint16_t what = 0;
      std::uint32_t descriptor = 0;
      if (event.size() < sizeof what + sizeof descriptor) continue;
      std::memcpy(&what, event.data(), sizeof what);
      std::memcpy(&descriptor, event.data() + sizeof what, sizeof descriptor);
      if (!monitor_.try_receive(endpoint)) continue;
      const int d = static_cast<int>(descriptor);
      if (what == ZMQ_EVENT_ACCEPTED) {
        if (early_.erase(d) == 0) accepted_[d] = address_of(d);
        continue;
      }
      for (std::size_t rank = 0; rank < descriptors_.size(); ++rank)
        if (descriptors_[rank] == d) disconnected_ranks_.push_back(static_cast<int>(rank));
      if (const auto silent = accepted_.find(d); silent != accepted_.end()) {
        refuse(silent->second, "it sent no hello of this run");
        accepted_.erase(silent);
      }
    }
  }

  /// "127.0.0.1:40584": where the peer of a connection is.
  [[nodiscard, gnu::cold]] static std::string address_of(int descriptor) {
    const socket_address peer = socket_address::of(getpeername, descriptor);
    const std::string host = peer.host();
    return host.empty() ? "an address that has gone" : with_port(host, peer.port());
  }

 private:
  static constexpr int unknown = -1;

  // At an address, an interface's name or "*". An interface's IPv4 address comes first, as without
  // ZMQ_IPV6 libzmq knows no other one.
  [[gnu::cold]] void bind_to(const std::string& address) const {
    const std::string host = without_brackets(address);
    const bool is_six = host.find(':') != std::string::npos;
    const std::string endpoint = concat("tcp://", with_port(host, 0));
    socket_.set(ZMQ_IPV6, host == "*" || is_six ? 1 : 0);
    if (zmq_bind(socket_.get(), endpoint.c_str()) == 0) return;
    socket_.set(ZMQ_IPV6, 1);
    zeromq_expects(zmq_bind(socket_.get(), endpoint.c_str()) == 0,
                   concat("cannot listen at ", address, " (zeromq::options{.listen})"));
  }

  // Discards the rest of a multipart message, which is never one of ours; returns an empty message.
  [[gnu::cold]] zeromq_message skip_rest() const {
    zeromq_message part;
    while (socket_.try_receive(part) && part.is_followed()) {
    }
    return {};
  }

  // The rank of a connection by its first message, or unknown.
  [[gnu::cold]] int admit(zeromq_message first) {
    const int descriptor = first.descriptor();
    const std::string address = address_of(descriptor);
    if (accepted_.erase(descriptor) == 0) early_.insert(descriptor);
    const auto hello = zeromq_hello::parse(first.text());
    std::string why;
    if (!hello)
      why = "its first message is no hello of this version of cordee";
    else if (!equal_secrets(hello->secret, secret_))
      why = "it has another secret: is it of another run?";
    else if (hello->rank < 0 || hello->rank >= static_cast<int>(descriptors_.size()))
      why = concat("it says that it is rank ", hello->rank, " of ", descriptors_.size());
    else if (descriptors_[static_cast<std::size_t>(hello->rank)] >= 0)
      why = concat("rank ", hello->rank, " has joined already");
    if (why.empty()) {
      descriptors_[static_cast<std::size_t>(hello->rank)] = descriptor;
      return hello->rank;
    }
    refuse(address, why);
    return unknown;
  }
  [[gnu::cold]] void refuse(const std::string& address, const std::string& why) const {
    std::fprintf(stderr, "cordee: rank %d refuses %s: %s\n", rank_, address.c_str(), why.c_str());
  }

  const int rank_;
  const std::string secret_;
  std::vector<int> descriptors_;            // by rank, -1 before its hello
  std::map<std::string, int> connections_;  // ranks, or unknown, by libzmq's routing id
  std::map<int, std::string> accepted_;     // addresses without a hello, by descriptor
  std::set<int> early_;  // descriptors whose first message was received before watch() noted them
  std::vector<int> disconnected_ranks_;
  zeromq_socket socket_, monitor_;
  std::string address_;
  int port_ = 0, descriptor_ = -1;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
