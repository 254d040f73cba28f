// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The connections of a bootstrap server, and what it forwards between them. It neither blocks nor
// reads a clock: the server's thread waits until something arrives, and gives it the time.
#pragma once

#include <algorithm>
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

#include <cordee/comm/transports/bootstrap/tcp_connection.hpp>

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
    return list([](const rank_state& r) { return !r.joined; });
  }
  /// The ranks that a failure has not reached: those that have not started, as far as is known, and
  /// those that have joined since and not left yet.
  [[nodiscard]] std::string not_informed() const {
    return list([](const rank_state& r) {
      return r.joined ? r.is_late && !r.left && !r.connection.is_closed() : !r.was_answered;
    });
  }
  /// "10.0.0.7, as rank 1: another secret": a refusal that was not returned before; "" if there is
  /// none. The first of each rank alone: strangers fill no log.
  [[nodiscard]] std::string next_refusal() {
    if (printed_refusals_ == refusals_.size()) return {};
    return refusals_[printed_refusals_++].text;
  }
  /// The refusals of ranks that have not joined; "" if there are none.
  [[nodiscard]] std::string refusals() const {
    std::string text;
    for (const refusal& r : refusals_)
      if (r.rank < ranks_.size() && !ranks_[r.rank].joined)
        text += concat(text.empty() ? "" : ", ", r.text);
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
    bool joined = false, left = false, is_late = false, was_answered = false;
    std::deque<std::string> contributions{};  // to allgathers that are not complete
  };
  struct pending {
    tcp_connection connection;
    time_point accepted;
  };
  struct refusal {
    std::size_t rank;  // that it says it is; the number of ranks for none of these
    std::string text;
  };

  // Returns whether the connection is no longer pending.
  bool admit(pending& p, time_point now) {
    tcp_connection& connection = p.connection;
    const auto f = connection.try_receive(sizeof(hello) + longest_secret);
    if (!f) return connection.is_closed() || now - p.accepted > hello_timeout_;
    const auto h = from_bytes<hello>(f->payload);
    const std::string_view payload(f->payload);
    if (f->kind != frame::hello || payload.size() < sizeof h) return true;
    if (const auto secret = payload.substr(sizeof h); !equal_secrets(secret, secret_)) {
      refuse(connection, h, secret.empty());
      return true;
    }
    const int size = static_cast<int>(ranks_.size());
    const bool fits = h.size == size && h.rank >= 0 && h.rank < size;
    if (fits && !ranks_[static_cast<std::size_t>(h.rank)].joined) {
      rank_state& r = ranks_[static_cast<std::size_t>(h.rank)];
      r.connection = std::move(connection);
      r.joined = true;
      r.connection.send({frame::ack, 0, ""});
      r.is_late = failure_ && h.rank > 0;  // rank 0's process has the server
      if (failure_) report_failure_to(r.connection);
      return true;
    }
    const frame mismatch{frame::failed, h.rank,
                         fits ? concat("two processes are rank ", h.rank, " of ", size)
                              : concat("it is started as rank ", h.rank, " of ", h.size,
                                       ", but rank 0 as rank 0 of ", size,
                                       ": start every rank with the same number of ranks")};
    answer(connection, h.rank, mismatch);
    if (!not_joined().empty()) fail(mismatch);  // a complete run continues
    return true;
  }
  void answer(tcp_connection& connection, int rank, const frame& f) {
    if (rank >= 0 && static_cast<std::size_t>(rank) < ranks_.size())
      ranks_[static_cast<std::size_t>(rank)].was_answered = true;
    connection.send(f);
  }
  // Anyone may send a wrong secret to a run that has one, so only the sender gets an answer. A run
  // without a secret admits any process, so a rank that has one can end it, as any other could.
  void refuse(tcp_connection& connection, hello h, bool has_none) {
    const std::string why = secret_.empty() ? "it has a secret, but rank 0 has none"
                            : has_none      ? "it has no secret, but rank 0 has one"
                                            : "its secret is not rank 0's";
    const auto rank =
        h.rank >= 0 ? std::min(static_cast<std::size_t>(h.rank), ranks_.size()) : ranks_.size();
    if (std::none_of(refusals_.begin(), refusals_.end(),
                     [&](const refusal& r) { return r.rank == rank; }))
      refusals_.push_back(
          {rank, concat(connection.peer_address(), " as rank ", h.rank, ": ", why)});
    if (secret_.empty() && !not_joined().empty()) {
      const frame failure{frame::failed, h.rank, concat(why, remedy)};
      answer(connection, h.rank, failure);
      fail(failure);
    } else {
      answer(connection, h.rank, {frame::refused, 0, concat(why, remedy)});
    }
  }
  // To a rank that joins later: also which ranks it need not wait for.
  void report_failure_to(tcp_connection& connection) {
    connection.send(*failure_);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].left || ranks_[rank].connection.is_closed())
        connection.send(
            {ranks_[rank].left ? frame::left : frame::lost, static_cast<int>(rank), ""});
  }
  template <class Predicate>
  [[nodiscard]] std::string list(const Predicate& is_listed) const {
    std::string text;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (is_listed(ranks_[rank])) text += concat(text.empty() ? "rank " : ", rank ", rank);
    return text;
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
  static constexpr const char* remedy =
      ": start every rank with the same CORDEE_SECRET_KEY, or CORDEE_SECRET_KEY_FILE";

  const std::string secret_;
  const std::chrono::milliseconds hello_timeout_;
  const std::size_t most_pending_;
  std::vector<rank_state> ranks_;
  std::vector<pending> pending_;
  std::vector<refusal> refusals_;
  std::size_t printed_refusals_ = 0;
  std::optional<frame> failure_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
