// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What NCCL does not carry: at the start each rank's host and GPU, later which rank failed and why,
// and which ranks left. A thread of rank 0 forwards it, whatever rank 0's other threads do; a rank
// whose connection closes before it has left has died.
//
// Any process that reaches the port may connect. It counts only if its first message has the run's
// secret, which is sent as it is: this keeps out processes of other users and runs, not one that
// reads the network. Until then it may send only that message, has five seconds, and gets no answer;
// when all ranks have joined, nothing listens any more.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <poll.h>

#include <cordee/comm/nccl/tcp_connection.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// A rank's first message, before the run's secret.
struct hello {
  std::int32_t rank, size;
};
inline constexpr std::size_t longest_secret = 256;

/// Whether both are the same, in a time that depends on their lengths only.
[[nodiscard]] inline bool equal_secrets(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  return difference == 0;
}
template <class T>
std::string to_bytes(const T& x) {
  return {reinterpret_cast<const char*>(&x), sizeof x};
}
/// T{} if the bytes are too few.
template <class T>
T from_bytes(std::string_view bytes) {
  T x{};
  if (bytes.size() >= sizeof x) std::memcpy(&x, bytes.data(), sizeof x);
  return x;
}

/// Rank 0's thread, which ends with this object, also while ranks are connected.
class bootstrap_server {
 public:
  /// `host`: where it listens, see listener. `hello_timeout`: for how long a connection may stay
  /// without the run's secret.
  bootstrap_server(int ranks, int port, std::string secret, std::chrono::milliseconds deadline,
                   const std::string& host = {},
                   std::chrono::milliseconds hello_timeout = std::chrono::seconds(5))
      : secret_(std::move(secret)),
        deadline_(deadline),
        hello_timeout_(hello_timeout),
        listener_(port, host),
        port_(listener_.port()),
        local_address_(listener_.local_address()),
        ranks_(static_cast<std::size_t>(ranks)),
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
  struct rank_state {
    tcp_connection connection;
    bool joined = false, left = false;
    std::deque<std::string> contributions{};  // to allgathers that are not complete
  };
  using clock = std::chrono::steady_clock;
  struct pending {
    tcp_connection connection;
    clock::time_point accepted;
  };

  void serve() {
    const auto join_deadline = clock::now() + deadline_;
    for (bool reported = false; !closing_;) {
      wait();
      std::erase_if(pending_, [this](pending& p) { return admit(p); });
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) receive_from(rank);
      const std::string missing = not_joined();
      if (missing.empty()) close_door();
      if (missing.empty() || clock::now() < join_deadline || std::exchange(reported, true))
        continue;
      fail(
          {frame::failed, 0,
           concat("waited ", deadline_.count(), " ms for ", missing, " to connect to port ", port(),
                  ": not started, started with another address, or behind a firewall "
                  "(Slurm's variables are also set where srun has started nothing)")});
    }
  }

  void wait() {
    std::vector<pollfd> descriptors;
    const auto add = [&](int descriptor) {
      if (descriptor >= 0) descriptors.push_back({descriptor, POLLIN, 0});
    };
    add(accepts_ ? listener_.descriptor() : -1);
    for (const rank_state& r : ranks_) add(r.connection.descriptor());
    for (const pending& p : pending_) add(p.connection.descriptor());
    if (::poll(descriptors.data(), descriptors.size(), 20) < 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const bool arrived = accepts_ && descriptors.front().revents != 0;
    accepts_ = !listener_.is_closed();
    if (arrived) accept();
  }

  // The oldest pending connection makes room for a new one: a rank that loses its place so connects
  // again.
  void accept() {
    if (pending_.size() >= ranks_.size() + 64) pending_.erase(pending_.begin());
    tcp_connection connection = listener_.accept();
    if (!connection.is_closed())
      pending_.push_back({std::move(connection), clock::now()});
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      accepts_ = false;  // in the next wait, which so takes its time
  }
  void close_door() {
    if (listener_.is_closed()) return;
    listener_.close();
    accepts_ = false;
    pending_.clear();
  }

  // Returns whether the connection is no longer pending. One without the secret gets no answer.
  bool admit(pending& p) {
    tcp_connection& connection = p.connection;
    const auto f = connection.try_receive(sizeof(hello) + longest_secret);
    if (!f) return connection.is_closed() || clock::now() - p.accepted > hello_timeout_;
    const auto h = from_bytes<hello>(f->payload);
    const std::string_view payload(f->payload);
    if (f->kind != frame::hello || payload.size() < sizeof h ||
        !equal_secrets(payload.substr(sizeof h), secret_))
      return true;
    const int size = static_cast<int>(ranks_.size());
    const bool fits = h.size == size && h.rank >= 0 && h.rank < size;
    if (fits && !ranks_[static_cast<std::size_t>(h.rank)].joined) {
      rank_state& r = ranks_[static_cast<std::size_t>(h.rank)];
      r.connection = std::move(connection);
      r.joined = true;
      r.connection.send({frame::ack, 0, ""});
      if (failure_) r.connection.send(*failure_);  // that happened before it joined
      return true;
    }
    const frame refusal{frame::failed, h.rank,
                        fits ? concat("two processes are rank ", h.rank, " of ", size)
                             : concat("it is started as rank ", h.rank, " of ", h.size,
                                      ", but rank 0 as rank 0 of ", size,
                                      ": start every rank with the same number of ranks")};
    connection.send(refusal);
    if (!not_joined().empty()) fail(refusal);  // a complete run goes on
    return true;
  }

  void receive_from(std::size_t rank) {
    rank_state& r = ranks_[rank];
    if (r.connection.is_closed()) return;
    while (auto f = r.connection.try_receive(longest_contribution)) {
      r.left = r.left || f->kind == frame::left;
      if (f->kind == frame::allgather)
        r.contributions.push_back(std::move(f->payload));
      else if (f->kind == frame::failed || f->kind == frame::stalled || f->kind == frame::left)
        send_to_all({f->kind, static_cast<int>(rank), f->payload});
    }
    if (r.connection.is_closed() && !r.left)
      fail({frame::failed, static_cast<int>(rank),
            "its process ended without leaving the run: killed, or crashed"});
    complete_allgather();
  }

  void complete_allgather() {
    for (const rank_state& r : ranks_)
      if (r.contributions.empty()) return;
    std::string payload;
    for (rank_state& r : ranks_) {
      const std::string& part = r.contributions.front();
      payload += to_bytes(static_cast<std::uint32_t>(part.size())) + part;
      r.contributions.pop_front();
    }
    send_to_all({frame::allgathered, 0, payload});
  }

  // A rank that is not connected cannot leave: counts it as left, so that no rank waits for that.
  void fail(const frame& why) {
    if (!failure_) failure_ = why;
    send_to_all(why);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].connection.is_closed())
        send_to_all({frame::left, static_cast<int>(rank), ""});
  }
  void send_to_all(const frame& f) {
    for (rank_state& r : ranks_)
      if (!r.connection.is_closed()) r.connection.send(f);
  }
  [[nodiscard]] std::string not_joined() const {
    std::string text;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (!ranks_[rank].joined) text += concat(text.empty() ? "rank " : ", rank ", rank);
    return text;
  }

  static constexpr std::size_t longest_contribution = std::size_t{1} << 20;

  const std::string secret_;
  const std::chrono::milliseconds deadline_, hello_timeout_;
  listener listener_;
  const int port_;
  const std::string local_address_;
  bool accepts_ = true;  // in this wait
  std::vector<rank_state> ranks_;
  std::vector<pending> pending_;
  std::optional<frame> failure_;
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
