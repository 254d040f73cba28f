// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What NCCL does not carry: at the start each rank's host and GPU, later which rank failed and why,
// and which ranks left. A thread of rank 0 forwards it, whatever rank 0's other threads do; a rank
// whose connection closes before it has left has died.
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

/// A rank's first message.
struct hello {
  std::uint64_t run_id;  // distinguishes two runs
  std::int32_t rank, size;
};
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
  bootstrap_server(int ranks, int port, std::uint64_t run_id, std::chrono::milliseconds deadline)
      : run_id_(run_id),
        deadline_(deadline),
        listener_(port),
        ranks_(static_cast<std::size_t>(ranks)),
        thread_([this] { serve(); }) {}
  bootstrap_server(const bootstrap_server&) = delete;
  bootstrap_server& operator=(const bootstrap_server&) = delete;
  ~bootstrap_server() {
    closing_ = true;
    thread_.join();
  }
  [[nodiscard]] int port() const { return listener_.port(); }

 private:
  struct rank_state {
    tcp_connection connection;
    bool joined = false, left = false;
    std::deque<std::string> contributions{};  // to allgathers that are not complete
  };
  using clock = std::chrono::steady_clock;

  void serve() {
    const auto join_deadline = clock::now() + deadline_;
    for (bool reported = false; !closing_;) {
      wait();
      std::erase_if(pending_connections_, [this](tcp_connection& c) { return admit(c); });
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) receive_from(rank);
      const std::string missing = not_joined();
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
    std::vector<pollfd> descriptors{{listener_.descriptor(), POLLIN, 0}};
    const auto add = [&](const tcp_connection& c) {
      if (!c.is_closed()) descriptors.push_back({c.descriptor(), POLLIN, 0});
    };
    for (const rank_state& r : ranks_) add(r.connection);
    for (const tcp_connection& c : pending_connections_) add(c);
    ::poll(descriptors.data(), descriptors.size(), 20);
    if (descriptors.front().revents != 0) pending_connections_.push_back(listener_.accept());
  }

  // Returns whether the connection is no longer pending. One of another run gets no answer.
  bool admit(tcp_connection& connection) {
    const auto f = connection.try_receive();
    if (!f) return connection.is_closed();
    const auto h = from_bytes<hello>(f->payload);
    if (f->kind != frame::hello || h.run_id != run_id_) return true;
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
    while (auto f = r.connection.try_receive()) {
      r.left = r.left || f->kind == frame::left;
      if (f->kind == frame::allgather)
        r.contributions.push_back(std::move(f->payload));
      else
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

  const std::uint64_t run_id_;
  const std::chrono::milliseconds deadline_;
  const listener listener_;
  std::vector<rank_state> ranks_;
  std::vector<tcp_connection> pending_connections_;
  std::optional<frame> failure_;
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
