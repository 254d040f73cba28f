// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What ranks as processes without MPI need beside their data: at the start each rank's host and
// address or GPU, later which rank failed and why, and which ranks left. A thread of rank 0
// forwards it, whatever rank 0's other threads do; a rank whose connection closes before it has
// left has died.
//
// Any process that reaches the port may connect. It counts only if its first message has the run's
// secret, which is sent as it is: this keeps out processes of other users and runs, not one that
// reads the network. Until then it may send only that message, has five seconds, and gets no
// answer; when all ranks have joined, nothing listens any more.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <cordee/comm/bootstrap/acceptor.hpp>
#include <cordee/comm/bootstrap/relay.hpp>
#include <cordee/comm/bootstrap/tcp_connection.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Rank 0's thread, which ends with this object, also while ranks are connected.
class bootstrap_server {
 public:
  /// `host`: where it listens, see listener. `hello_timeout`: for how long a connection may stay
  /// without the run's secret.
  bootstrap_server(int ranks, int port, std::string secret, std::chrono::milliseconds deadline,
                   const std::string& host = {},
                   std::chrono::milliseconds hello_timeout = std::chrono::seconds(5))
      : deadline_(deadline),
        relay_(ranks, std::move(secret), hello_timeout),
        listener_(port, host),
        port_(listener_.port()),
        local_address_(listener_.local_address()),
        thread_([this] { serve(); }) {}
  bootstrap_server(const bootstrap_server&) = delete;
  bootstrap_server& operator=(const bootstrap_server&) = delete;
  ~bootstrap_server() {
    closing_ = true;
    thread_.join();
  }
  [[nodiscard]] int port() const { return port_; }
  /// For clients on this host.
  [[nodiscard]] const std::string& local_address() const { return local_address_; }

 private:
  using clock = std::chrono::steady_clock;

  void serve() {
    const auto join_deadline = clock::now() + deadline_;
    for (bool reported = false; !closing_;) {
      acceptor_.wait(20);
      acceptor_.receive(clock::now());
      const std::string missing = relay_.not_joined();
      if (missing.empty() || clock::now() < join_deadline || std::exchange(reported, true))
        continue;
      relay_.fail(
          {frame::failed, 0,
           concat("waited ", deadline_.count(), " ms for ", missing, " to connect to port ", port(),
                  ": not started, started with another address, or behind a firewall "
                  "(Slurm's variables are also set where srun has started nothing)")});
    }
  }

  const std::chrono::milliseconds deadline_;
  bootstrap_relay relay_;
  listener listener_;
  bootstrap_acceptor acceptor_{listener_, relay_};
  const int port_;
  const std::string local_address_;
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
