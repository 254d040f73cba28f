// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which rank prints why a run has ended, where the process of rank 0, and with it the server, has
// died: the lowest that lives. Every rank listens from the start. Then each asks the lower ones,
// from rank 1 on, until one answers that it leaves too; the one that gets no answer is the lowest.
//
// No connection blocks, for a host that is gone drops packets. While a rank is not reached, the
// next ones are asked beside it, so that the time to ask does not grow with the unreachable ranks
// by more than a step each; where all can be reached, each rank opens one connection.
//
// A launcher may end all processes when one ends, so the lowest ends first: the others wait until
// the one that answered closes their connection, when it need not wait for more ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/bootstrap/bootstrap_session.hpp>
#include <cordee/comm/transports/bootstrap/rendezvous.hpp>
#include <cordee/comm/transports/bootstrap/tcp_connection.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class bootstrap_survivors {
 public:
  /// Collective. `host`: where a rank on rank 0's host listens, see listener; the others listen at
  /// the address that connects them to rank 0.
  [[gnu::cold]] bootstrap_survivors(bootstrap_session& session, const std::string& host)
      : rank_(session.self.rank),
        asked_(static_cast<std::size_t>(session.self.size)),
        listener_(0, address_of(session, host)) {
    place own;
    own.port = listener_.port();
    session.control().local_address().copy(own.address, sizeof own.address - 1);
    if (rank_ == 0) random_secret().copy(own.secret, sizeof own.secret - 1);
    places_ = session.allgather(own);
    const std::string server = session.control().server_address();
    for (place& p : places_)  // of a rank on rank 0's host
      if (is_loopback(p.address)) {
        std::memset(p.address, 0, sizeof p.address);
        server.copy(p.address, sizeof p.address - 1);
      }
  }
  bootstrap_survivors(const bootstrap_survivors&) = delete;
  bootstrap_survivors& operator=(const bootstrap_survivors&) = delete;

  /// Where this rank listens.
  [[nodiscard]] int port() const { return listener_.port(); }
  /// After rank 0's death, when this rank leaves. Blocks until a lower rank has answered; the
  /// lowest, until all higher ones have asked, which the dead do not: at most `timeout`. Blocks
  /// those that have an answer until the lowest returns: at most `timeout` more, which suffices,
  /// since the lowest has called meet() when it answers.
  [[gnu::cold]] void meet(std::chrono::milliseconds timeout) {
    const auto poll = [&] {
      answer();
      ask(timeout / 4);
    };
    const auto met = [&] {
      poll();
      return is_answered() || (is_lowest() && all_higher_have_asked());
    };
    const auto released = [&] {
      poll();
      return std::none_of(asked_lower_.begin(), asked_lower_.end(),
                          [](const question& q) { return q.is_answered && q.is_open(); });
    };
    poll_until(met, timeout, std::chrono::milliseconds(1));
    if (is_answered()) poll_until(released, timeout, std::chrono::milliseconds(1));
    asking_.clear();
  }
  /// Whether meet() has found that this lower rank leaves.
  [[nodiscard]] bool has_left(int rank) const {
    const auto index = static_cast<std::size_t>(rank) - 1;
    return rank > 0 && index < asked_lower_.size() && asked_lower_[index].is_answered;
  }

 private:
  struct place {
    std::int32_t port = 0;
    char address[address_text_size]{}, secret[64]{};  // the secret is rank 0's
  };
  using clock = std::chrono::steady_clock;
  struct question {
    tcp_connection connection;  // closed: the rank has ended
    clock::time_point begin;
    bool is_connected = false, is_answered = false;

    [[nodiscard]] bool is_open() const { return !connection.is_closed(); }
  };
  static constexpr std::chrono::milliseconds step{10};

  [[nodiscard, gnu::cold]] static std::string address_of(bootstrap_session& session,
                                                         const std::string& host) {
    const std::string address = session.control().local_address();
    return is_loopback(address) ? host : address;
  }
  [[nodiscard]] std::string_view secret() const { return places_.front().secret; }
  [[nodiscard]] bool all_higher_have_asked() const {
    return std::all_of(asked_.begin() + rank_ + 1, asked_.end(), [](char asked) { return asked; });
  }

  [[nodiscard]] bool is_answered() const {
    return std::any_of(asked_lower_.begin(), asked_lower_.end(),
                       [](const question& q) { return q.is_answered; });
  }
  [[nodiscard]] bool all_are_asked() const {
    return static_cast<int>(asked_lower_.size()) + 1 >= rank_;
  }
  [[nodiscard]] bool is_lowest() const {
    return all_are_asked() &&
           std::none_of(asked_lower_.begin(), asked_lower_.end(),
                        [](const question& q) { return q.is_answered || q.is_open(); });
  }

  // One more lower rank, where each one before has ended or cannot be reached within a step; a rank
  // that is not reached within `connect_limit` has ended.
  void ask(clock::duration connect_limit) {
    const auto now = clock::now();
    bool next = !all_are_asked();
    for (question& q : asked_lower_) {
      if (q.is_connected)
        receive_answer(q);
      else
        connect(q, now - q.begin > connect_limit);
      next = next && (!q.is_open() || (!q.is_connected && now - q.begin > step));
    }
    if (!next) return;
    const place& p = places_[asked_lower_.size() + 1];
    asked_lower_.push_back({tcp_connection::begin_connect(p.address, p.port), now});
  }
  void connect(question& q, bool is_late) const {
    q.is_connected = q.connection.has_connected();
    const hello own{rank_, static_cast<std::int32_t>(places_.size())};
    if (q.is_connected)
      q.connection.send({frame::hello, rank_, to_bytes(own).append(secret())});
    else if (is_late)
      q.connection.close();
  }
  static void receive_answer(question& q) {
    const auto f = q.connection.try_receive(0);
    q.is_answered = q.is_answered || (f && f->kind == frame::ack);
  }
  // Those that ask with the secret.
  void answer() {
    for (tcp_connection c; !(c = listener_.accept()).is_closed();) {
      if (asking_.size() > asked_.size() + 64) asking_.erase(asking_.begin());
      asking_.push_back(std::move(c));
    }
    for (tcp_connection& c : asking_) {
      const auto f = c.try_receive(sizeof(hello) + longest_secret);
      if (!f) continue;
      const auto h = from_bytes<hello>(f->payload);
      const std::string_view payload(f->payload);
      if (f->kind == frame::hello && payload.size() > sizeof h &&
          equal_secrets(payload.substr(sizeof h), secret()) && h.rank > rank_ &&
          h.rank < static_cast<int>(asked_.size())) {
        asked_[static_cast<std::size_t>(h.rank)] = true;
        c.send({frame::ack, rank_, ""});
      } else {
        c.close();
      }
    }
    std::erase_if(asking_, [](const tcp_connection& c) { return c.is_closed(); });
  }

  const int rank_;
  std::vector<place> places_;  // by rank
  std::vector<char> asked_;    // by rank
  listener listener_;
  std::vector<tcp_connection> asking_;
  std::vector<question> asked_lower_;  // rank 1's, rank 2's, ...
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
