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
// reads the network. Until then it may send only that message, and has five seconds; when all ranks
// have joined, nothing listens any more.
//
// A hello with another secret is refused: rank 0 prints at once from where it came, and the sender
// gets one frame that says so, at which a rank ends. The other ranks continue, and wait for that
// rank until their deadline or their launcher ends them: a stranger's hello looks like that of a
// rank started with a wrong secret, and must not end a run. If rank 0 has no secret, any process
// can take a rank or end the run anyway, and then a rank that has one ends all at once. What is no
// hello gets no answer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <cordee/comm/transports/bootstrap/acceptor.hpp>
#include <cordee/comm/transports/bootstrap/relay.hpp>
#include <cordee/comm/transports/bootstrap/tcp_connection.hpp>

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
  /// See bootstrap_relay::not_informed; "" when all ranks have joined in time.
  [[nodiscard]] std::string not_informed() const {
    const std::scoped_lock lock(mutex_);
    return not_informed_;
  }
  /// For clients on this host.
  [[nodiscard]] const std::string& local_address() const { return local_address_; }

 private:
  using clock = std::chrono::steady_clock;

  void serve() {
    const auto join_deadline = clock::now() + deadline_;
    for (bool reported = false; !closing_;) {
      acceptor_.wait(20);
      const auto now = clock::now();  // before those that have come are received
      acceptor_.receive(now);
      for (std::string refusal; !(refusal = relay_.next_refusal()).empty();)
        std::fprintf(stderr, "cordee: rank 0 refuses %s\n", refusal.c_str());
      const std::string missing = relay_.not_joined();
      note_not_informed(relay_.not_informed());
      if (missing.empty() || now < join_deadline || std::exchange(reported, true)) continue;
      const std::string refused = relay_.refusals();
      relay_.fail(
          {frame::failed, 0,
           concat("waited ", deadline_.count(), " ms for ", missing, " to connect to port ", port(),
                  ": not started, started with another address or secret, or behind a firewall "
                  "(Slurm's variables are also set where srun has started nothing)",
                  refused.empty() ? "" : concat("; it refused ", refused))});
    }
  }
  void note_not_informed(std::string ranks) {
    const std::scoped_lock lock(mutex_);
    not_informed_ = std::move(ranks);
  }

  const std::chrono::milliseconds deadline_;
  bootstrap_relay relay_;
  listener listener_;
  bootstrap_acceptor acceptor_{listener_, relay_};
  const int port_;
  const std::string local_address_;
  mutable std::mutex mutex_;
  std::string not_informed_ = relay_.not_informed();
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
