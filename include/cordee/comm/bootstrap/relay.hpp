// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The connections of a bootstrap server, and what it forwards between them. It neither blocks nor
// reads a clock: the server's thread waits until something arrives, and gives it the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>

#include <cordee/comm/bootstrap/tcp_connection.hpp>

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

/// Admits ranks and forwards their frames.
class bootstrap_relay {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// `hello_timeout`: for how long a connection may stay without the run's secret.
  /// `unauthenticated`: how many of these may stay beside one for each rank.
  bootstrap_relay(int ranks, std::string secret, std::chrono::milliseconds hello_timeout,
                  std::size_t unauthenticated = 64)
      : secret_(std::move(secret)),
        hello_timeout_(hello_timeout),
        most_pending_(static_cast<std::size_t>(ranks) + unauthenticated),
        ranks_(static_cast<std::size_t>(ranks)) {}

  /// Closes the oldest connection without the secret if there are many: a rank that loses its place
  /// so connects again.
  void make_room() {
    if (pending_.size() >= most_pending_) pending_.erase(pending_.begin());
  }
  void add(tcp_connection connection, time_point now) {
    pending_.push_back({std::move(connection), now});
  }
  /// Receives and answers what has arrived, and closes what has come to its end.
  void receive(time_point now) {
    std::erase_if(pending_, [&](pending& p) { return admit(p, now); });
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) receive_from(rank);
  }
  /// Closes the connections without the secret.
  void drop_pending() { pending_.clear(); }

  /// Sends the cause to all ranks, also to those that join later, and which ranks are not
  /// connected: none waits for these to leave.
  void fail(const frame& why) {
    if (!failure_) failure_ = why;
    send_to_all(why);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].connection.is_closed())
        send_to_all({frame::lost, static_cast<int>(rank), ""});
  }
  /// "rank 1, rank 3"; empty if all have joined.
  [[nodiscard]] std::string not_joined() const {
    std::string text;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (!ranks_[rank].joined) text += concat(text.empty() ? "rank " : ", rank ", rank);
    return text;
  }
  /// Appends the descriptors at which something can arrive.
  void append_to(std::vector<pollfd>& descriptors) const {
    const auto append = [&](const tcp_connection& c) {
      if (!c.is_closed()) descriptors.push_back({c.descriptor(), POLLIN, 0});
    };
    for (const rank_state& r : ranks_) append(r.connection);
    for (const pending& p : pending_) append(p.connection);
  }

 private:
  struct rank_state {
    tcp_connection connection;
    bool joined = false, left = false;
    std::deque<std::string> contributions{};  // to allgathers that are not complete
  };
  struct pending {
    tcp_connection connection;
    time_point accepted;
  };

  // Returns whether the connection is no longer pending. One without the secret gets no answer.
  bool admit(pending& p, time_point now) {
    tcp_connection& connection = p.connection;
    const auto f = connection.try_receive(sizeof(hello) + longest_secret);
    if (!f) return connection.is_closed() || now - p.accepted > hello_timeout_;
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
    while (complete_allgather()) {
    }
  }

  // Returns false where a contribution is missing.
  bool complete_allgather() {
    for (const rank_state& r : ranks_)
      if (r.contributions.empty()) return false;
    std::string payload;
    for (rank_state& r : ranks_) {
      const std::string& part = r.contributions.front();
      payload += to_bytes(static_cast<std::uint32_t>(part.size())) + part;
      r.contributions.pop_front();
    }
    send_to_all({frame::allgathered, 0, payload});
    return true;
  }

  void send_to_all(const frame& f) {
    for (rank_state& r : ranks_)
      if (!r.connection.is_closed()) r.connection.send(f);
  }

  static constexpr std::size_t longest_contribution = std::size_t{1} << 20;

  const std::string secret_;
  const std::chrono::milliseconds hello_timeout_;
  const std::size_t most_pending_;
  std::vector<rank_state> ranks_;
  std::vector<pending> pending_;
  std::optional<frame> failure_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
