// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which rank prints why a run has ended, where the process of rank 0, and with it the server, has
// died: the lowest that lives. Every rank listens from the start. Then each asks the lower ones,
// from rank 1 on, until one answers that it leaves too; the one that gets no answer is the lowest.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/comm/bootstrap/bootstrap_session.hpp>
#include <cordee/comm/bootstrap/rendezvous.hpp>
#include <cordee/comm/bootstrap/tcp_connection.hpp>
#include <cordee/comm/poll_until.hpp>

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
  /// lowest, until all higher ones have asked, which the dead do not: at most `timeout`.
  [[gnu::cold]] void meet(std::chrono::milliseconds timeout) {
    const auto met = [this] {
      answer();
      return ask() && (lower_ < rank_ || all_higher_have_asked());
    };
    poll_until(met, timeout, std::chrono::milliseconds(1));
  }
  /// Whether meet() has found that this lower rank leaves.
  [[nodiscard]] bool has_left(int rank) const { return answered_ && rank == lower_; }

 private:
  struct place {
    std::int32_t port = 0;
    char address[48]{}, secret[64]{};  // the secret is rank 0's
  };

  [[nodiscard]] static bool is_loopback(std::string_view address) {
    return address.starts_with("127.");
  }
  [[nodiscard, gnu::cold]] static std::string address_of(bootstrap_session& session,
                                                         const std::string& host) {
    const std::string address = session.control().local_address();
    return is_loopback(address) ? host : address;
  }
  [[nodiscard]] std::string_view secret() const { return places_.front().secret; }
  [[nodiscard]] bool all_higher_have_asked() const {
    return std::all_of(asked_.begin() + rank_ + 1, asked_.end(), [](char asked) { return asked; });
  }

  // Returns whether lower_ has answered, or is this rank since none has.
  bool ask() {
    while (!answered_ && lower_ < rank_) {
      if (!connected_) {
        const place& p = places_[static_cast<std::size_t>(lower_)];
        connection_ = tcp_connection::connect(p.address, p.port);
        const hello own{rank_, static_cast<std::int32_t>(places_.size())};
        connection_.send({frame::hello, rank_, to_bytes(own).append(secret())});
        connected_ = true;
      }
      const auto f = connection_.try_receive(0);
      answered_ = f && f->kind == frame::ack;
      if (answered_ || !connection_.is_closed()) break;
      connected_ = false;
      ++lower_;
    }
    return answered_ || lower_ == rank_;
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
  int lower_ = 1;  // the rank that is asked, over connection_ if connected_
  tcp_connection connection_;
  bool connected_ = false, answered_ = false;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
