// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One rank's connection to rank 0's bootstrap server: the control channel of runs over NCCL
// and ZeroMQ, which every wait polls.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include <cordee/comm/failure/failure_report.hpp>
#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/bootstrap/bootstrap_server.hpp>
#include <cordee/comm/transports/launcher_environment.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class bootstrap_client {
 public:
  /// Requires a connection on which the server has acknowledged this rank.
  bootstrap_client(rank_assignment self, tcp_connection server)
      : first_failure(self.size),
        self_(std::move(self)),
        server_(std::move(server)),
        left_(static_cast<std::size_t>(self_.size)),
        lost_(left_) {}

  /// Why join has made no connection.
  struct join_failure {
    std::string text;  // "Connection refused"; of several hosts "node1: Connection refused, …"
    bool is_refused = false;  // by a server with another secret
  };
  /// A connection to the server at one of these hosts that has acknowledged this rank; a closed one
  /// if none has within two seconds each. Throws what a server answers instead.
  [[gnu::cold]] static tcp_connection join(const std::vector<std::string>& hosts, int port,
                                           const hello& rank, const std::string& secret,
                                           join_failure* failure = nullptr) {
    join_failure f;
    for (const std::string& host : hosts) {
      std::string why;
      tcp_connection server = tcp_connection::connect(host, port, &why);
      if (!server.is_closed()) why = "no answer of this version of cordee";
      server.send({frame::hello, rank.rank, to_bytes(rank) + secret});
      std::optional<frame> answer;
      poll_until([&] { return (answer = server.try_receive()) || server.is_closed(); },
                 std::chrono::seconds(2), std::chrono::milliseconds(1));
      if (answer && answer->kind == frame::ack) return server;
      if (answer && answer->kind != frame::refused)
        throw error(concat("rank ", answer->rank, ": ", answer->payload));
      f.is_refused = f.is_refused || answer.has_value();
      if (answer) why = answer->payload;
      f.text += hosts.size() == 1 ? why : concat(f.text.empty() ? "" : ", ", host, ": ", why);
    }
    if (failure != nullptr) *failure = f;
    return {};
  }

  /// The addresses of the connection to the server: this rank's end, and rank 0's.
  [[nodiscard]] std::string local_address() const {
    const std::scoped_lock lock(mutex_);
    return server_.local_address();
  }
  [[nodiscard]] std::string server_address() const {
    const std::scoped_lock lock(mutex_);
    return server_.peer_address();
  }

  /// Every rank's bytes, by rank, once all have called it. Throws at the deadline, and where the
  /// run fails.
  std::vector<std::string> allgather(const std::string& own, std::chrono::milliseconds deadline) {
    {
      const std::scoped_lock lock(mutex_);
      server_.send({frame::allgather, self_.rank, own});
    }
    std::string gathered;
    const auto ready = [&] {
      poll();
      const std::scoped_lock lock(mutex_);
      gathered = std::exchange(gathered_, {});
      return first_failure.happened() || !gathered.empty();
    };
    // The server's error, which names the missing ranks, comes first.
    const bool in_time = poll_until(ready, deadline + deadline / 4, std::chrono::milliseconds(1));
    if (first_failure.happened())
      throw error(concat("rank ", self_.rank, " aborted: ", first_failure.cause()));
    if (!in_time)
      throw error(concat("rank ", self_.rank, " waited ", deadline.count(),
                         " ms for every rank to start: one is stuck, or does not call launch"));
    return split(gathered);
  }

  /// Fails the run on this rank, and sends the cause to the server, unless it has failed before.
  void fail(const std::string& cause, bool stalled = false) {
    const std::scoped_lock lock(mutex_);
    if (!first_failure.record(self_.rank, cause, stalled)) return;
    is_answered_ = false;
    server_.send({stalled ? frame::stalled : frame::failed, self_.rank, cause});
  }
  void leave() {
    const std::scoped_lock lock(mutex_);
    // Rank 0's process has the server: it ends when that has forwarded this, to rank 0 as well.
    left_[static_cast<std::size_t>(self_.rank)] = self_.rank > 0;
    server_.send({frame::left, self_.rank, first_failure.serialize_report(self_.rank)});
  }

  /// Receives what has arrived.
  void poll() {
    const std::scoped_lock lock(mutex_);
    while (auto f = server_.try_receive()) {
      is_answered_ = true;
      if (f->kind == frame::allgathered)
        gathered_ = std::move(f->payload);
      else if (f->kind == frame::left)
        note_left(*f);
      else if (f->kind == frame::lost)
        note(lost_, f->rank);
      else
        first_failure.record(f->rank, f->payload, f->kind == frame::stalled);
    }
    if (server_.is_closed() && !left_.front())
      first_failure.record(0, "its process ended without leaving the run: killed, or crashed");
  }

  /// Whether the server, which sends a failure to all ranks, has sent nothing since this one's, and
  /// its connection is not closed.
  [[nodiscard]] bool is_server_silent() const {
    const std::scoped_lock lock(mutex_);
    return !is_answered_ && !server_.is_closed();
  }
  /// Whether rank 0's process has died: from then on no rank is known to leave.
  [[nodiscard]] bool has_lost_server() const {
    const std::scoped_lock lock(mutex_);
    return server_.is_closed() && !left_.front();
  }
  [[nodiscard]] bool has_left(int rank) const {
    const std::scoped_lock lock(mutex_);
    return left_[static_cast<std::size_t>(rank)];
  }
  /// "rank 1, rank 3": the ranks that are connected and have not left; empty if there are none, or
  /// the server has ended.
  [[nodiscard, gnu::cold]] std::string remaining() const {
    const std::scoped_lock lock(mutex_);
    std::string ranks;
    for (std::size_t rank = 0; rank < left_.size() && !server_.is_closed(); ++rank)
      if (!left_[rank] && !lost_[rank]) ranks += concat(ranks.empty() ? "rank " : ", rank ", rank);
    return ranks;
  }

  failure first_failure;

 private:
  void note(std::vector<char>& of_rank, int rank) const {
    if (rank >= 0 && rank < self_.size) of_rank[static_cast<std::size_t>(rank)] = true;
  }
  void note_left(const frame& f) {
    note(left_, f.rank);
    first_failure.merge_report(f.rank, f.payload);
  }
  [[nodiscard]] std::vector<std::string> split(const std::string& payload) const {
    std::vector<std::string> parts;
    std::string_view rest(payload);
    while (rest.size() >= sizeof(std::uint32_t)) {
      const auto size = from_bytes<std::uint32_t>(rest);
      parts.emplace_back(rest.substr(sizeof size, size));
      rest.remove_prefix(std::min(rest.size(), sizeof size + size));
    }
    if (static_cast<int>(parts.size()) != self_.size)
      throw error("rank 0 sent a malformed message: is it another version of cordee?");
    return parts;
  }

  const rank_assignment self_;
  mutable std::mutex mutex_;
  tcp_connection server_;
  bool is_answered_ = true;        // unless the server has been sent a failure
  std::vector<char> left_, lost_;  // by rank
  std::string gathered_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
