// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A rank's connections to all ranks, itself included: a DEALER socket to each, on which it sends,
// and one acceptor, at which all arrive. What has arrived waits in a queue for each context and
// peer. Never blocks. Used by one thread at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/transports/launcher_environment.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/comm/transports/zeromq/acceptor.hpp>
#include <cordee/comm/transports/zeromq/frame.hpp>
#include <cordee/comm/transports/zeromq/socket.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class zeromq_mesh {
 public:
  /// A chunk that has arrived.
  struct chunk {
    zeromq_header header;
    std::uint64_t number;  // in the order of arrival at this rank
    zeromq_message frame;

    [[nodiscard]] std::size_t size() const { return frame.size() - sizeof header; }
    [[nodiscard]] const std::byte* data() { return frame.data() + sizeof header; }
  };
  /// Between this rank and one peer on one context.
  struct channel {
    std::deque<chunk> arrived{};
    std::uint64_t synchronous_sends = 0, consumed_sends = 0;
  };

  zeromq_mesh(rank_assignment self, const std::string& address, std::string secret)
      : self_(std::move(self)),
        hello_(zeromq_hello{self_.rank, secret}.serialize()),
        channels_(static_cast<std::size_t>(self_.size * context_count)),
        sent_left_(static_cast<std::size_t>(self_.size)),
        left_(sent_left_),
        acceptor_(context_, self_.rank, self_.size, address, std::move(secret)) {}

  [[nodiscard]] std::string address() const { return acceptor_.address(); }
  [[nodiscard]] int port() const { return acceptor_.port(); }

  /// Connects to every rank's "tcp://address:port".
  [[gnu::cold]] void connect(const std::vector<std::string>& endpoints) {
    for (const std::string& endpoint : endpoints) {
      zeromq_socket& to = peers_.emplace_back(context_, ZMQ_DEALER);
      to.set(ZMQ_LINGER, 0);
      to.set(ZMQ_SNDHWM, zeromq_queue_length);
      to.set(ZMQ_IPV6, endpoint.find('[') != std::string::npos ? 1 : 0);
      to.set(ZMQ_IMMEDIATE, 1);  // queues nothing for a connection that is not made yet
      to.connect(endpoint);
    }
  }
  /// Sends hello to each peer whose connection is made, and receives theirs. Returns "" when it was
  /// sent to all and received from all, or the ranks that are missing.
  [[nodiscard, gnu::cold]] std::string join() {
    for (; greeted_ < peers_.size(); ++greeted_) {
      zeromq_message m(hello_.size());
      std::memcpy(m.data(), hello_.data(), hello_.size());
      if (!peers_[greeted_].try_send(m)) break;
    }
    poll();
    acceptor_.watch();
    if (greeted_ < peers_.size()) return concat("rank ", greeted_, " to accept a connection");
    const std::string missing = acceptor_.not_joined();
    return missing.empty() ? "" : concat(missing, " to connect");
  }
  /// Sends every peer that this rank has left. Returns whether all that are connected have it and
  /// have left, too.
  [[nodiscard, gnu::cold]] bool leave() {
    const std::vector<int>& closed = disconnected_ranks();
    poll();  // receives also what these have sent before
    zeromq_header h;
    h.kind = zeromq_header::left;
    bool all_left = true;
    for (int peer = 0; peer < self_.size; ++peer) {
      if (peer == self_.rank || std::ranges::find(closed, peer) != closed.end()) continue;
      const auto i = static_cast<std::size_t>(peer);
      sent_left_[i] = sent_left_[i] || try_send(peer, h, nullptr, 0);
      all_left = all_left && sent_left_[i] && left_[i];
    }
    return all_left;
  }
  /// Whether a peer has sent that it has left.
  [[nodiscard]] bool has_left(int peer) const { return left_[static_cast<std::size_t>(peer)]; }
  /// Closes the connections when what is queued has been sent, or after so many ms.
  [[gnu::cold]] void linger(int ms) {
    for (const zeromq_socket& to : peers_) to.set(ZMQ_LINGER, ms);
  }

  /// Queues a chunk. False while the connection's queue is full.
  [[nodiscard]] bool try_send(int peer, const zeromq_header& h, const std::byte* data,
                              std::size_t size) {
    zeromq_message m(sizeof h + size);
    std::memcpy(m.data(), &h, sizeof h);
    if (size > 0) std::memcpy(m.data() + sizeof h, data, size);
    return peers_[static_cast<std::size_t>(peer)].try_send(m);
  }
  /// Tells a peer that its oldest synchronous transfer on a context is consumed.
  void send_consumed(int peer, int context) {
    answers_.push_back({peer, context});
    send_answers();
  }

  /// Receives what has arrived. Throws where a rank sends what is no chunk.
  void poll() {
    if (!answers_.empty()) send_answers();
    acceptor_.receive([&](int peer, zeromq_message m) {
      const auto h = parse_header(m.text(), context_count);
      if (!h)
        throw error(concat("rank ", self_.rank, " received ", m.size(), " bytes from rank ", peer,
                           " (", zeromq_acceptor::address_of(m.descriptor()),
                           ") that are no message of this version of cordee"));
      channel& c = at(h->context, peer);
      if (h->kind == zeromq_header::left)
        left_[static_cast<std::size_t>(peer)] = true;
      else if (h->kind == zeromq_header::consumed)
        ++c.consumed_sends;
      else
        c.arrived.push_back({*h, next_number_++, std::move(m)});
    });
  }
  /// See acceptor.
  void await(std::chrono::microseconds longest) const { acceptor_.await(longest); }
  /// The ranks whose connections have closed.
  [[nodiscard, gnu::cold]] const std::vector<int>& disconnected_ranks() {
    acceptor_.watch();
    return acceptor_.disconnected_ranks();
  }

  [[nodiscard]] channel& at(int context, int peer) {
    return channels_[static_cast<std::size_t>(peer * context_count + context)];
  }
  /// The rank whose first chunk on a context arrived first, or -1.
  [[nodiscard]] int first_sender(int context) {
    int first = -1;
    for (int peer = 0; peer < self_.size; ++peer) {
      const auto& arrived = at(context, peer).arrived;
      if (!arrived.empty() &&
          (first < 0 || arrived.front().number < at(context, first).arrived.front().number))
        first = peer;
    }
    return first;
  }
  /// A transfer that was sent to this rank and never received; empty if there is none.
  [[nodiscard, gnu::cold]] std::string unreceived() {
    for (int context = 0; context < context_count; ++context)
      for (int peer = 0; peer < self_.size; ++peer)
        if (const auto& arrived = at(context, peer).arrived; !arrived.empty())
          return concat("rank ", peer, " sent ", arrived.front().header.size, " bytes to rank ",
                        self_.rank, " on context ", context,
                        ", which has left the run without receiving them: every rank must make the "
                        "same exchanges");
    return {};
  }

 private:
  struct answer {
    int peer, context;
  };

  void send_answers() {
    while (!answers_.empty()) {
      zeromq_header h;
      h.kind = zeromq_header::consumed;
      h.context = static_cast<std::uint8_t>(answers_.front().context);
      if (!try_send(answers_.front().peer, h, nullptr, 0)) return;
      answers_.pop_front();
    }
  }

  const rank_assignment self_;
  const std::string hello_;
  std::vector<channel> channels_;
  std::deque<answer> answers_;
  std::uint64_t next_number_ = 0;
  std::size_t greeted_ = 0;             // peers
  std::vector<char> sent_left_, left_;  // by rank: whether it was sent that this one has left
  zeromq_context context_;
  zeromq_acceptor acceptor_;
  std::vector<zeromq_socket> peers_;  // by rank
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
