// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a bootstrap server's thread does in each turn of its loop: accept a connection, let the
// relay receive, and stop listening when all ranks have joined.
#pragma once

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>

#include <cordee/comm/transports/bootstrap/relay.hpp>
#include <cordee/comm/transports/bootstrap/tcp_connection.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Requires that listener and relay outlive it.
class bootstrap_acceptor {
 public:
  bootstrap_acceptor(listener& at, bootstrap_relay& relay) : listener_(at), relay_(relay) {}

  /// Blocks until something has arrived, at most `timeout` ms.
  void wait(int timeout) {
    std::vector<pollfd> descriptors;
    if (accepts_) descriptors.push_back({listener_.descriptor(), POLLIN, 0});
    relay_.append_to(descriptors);
    if (::poll(descriptors.data(), descriptors.size(), timeout) < 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(timeout));
    arrived_ = accepts_ && descriptors.front().revents != 0;
    accepts_ = !listener_.is_closed();
  }
  /// At most one connection is accepted, so that those before it are received from in between.
  void receive(bootstrap_relay::time_point now) {
    if (std::exchange(arrived_, false)) accept(now);
    relay_.receive(now);
    if (listener_.is_closed() || !relay_.not_joined().empty()) return;
    listener_.close();
    accepts_ = false;
    relay_.drop_pending();
  }

 private:
  void accept(bootstrap_relay::time_point now) {
    relay_.make_room();
    tcp_connection connection = listener_.accept();
    if (!connection.is_closed())
      relay_.add(std::move(connection), now);
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      accepts_ = false;  // in the next wait, which so takes its time
  }

  listener& listener_;
  bootstrap_relay& relay_;
  bool accepts_ = true;   // in the next wait
  bool arrived_ = false;  // a connection, in the last one
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
