// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where a process of an elastic run answers the others, whatever its world does: a listening socket
// for all of its life, and those that have called there.
//
// A caller counts once its first frame has the run's secret. It is a member that has left its world
// and meets the others for the next one, or a process that joins. Others are refused: a secret of
// another run, and a process that a newer generation has lost. It neither blocks nor reads a clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/transports/bootstrap/generation.hpp>
#include <cordee/comm/transports/bootstrap/relay.hpp>
#include <cordee/comm/transports/bootstrap/rendezvous.hpp>
#include <cordee/comm/transports/bootstrap/tcp_connection.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// The next world, as its coordinator sends it to the members.
struct world_call {
  generation next{};
  bootstrap_address server{};  // of its rank 0

  [[nodiscard, gnu::cold]] std::string serialize(std::string_view secret) const {
    return concat(secret, " ", next.serialize(), server.serialize());
  }
  /// Empty without the secret, or for what serialize() does not write.
  [[nodiscard, gnu::cold]] static std::optional<world_call> parse(std::string_view text,
                                                                  std::string_view secret) {
    word_reader in(text);
    const auto given = in.word();
    if (!given || !equal_secrets(*given, secret)) return {};
    auto next = generation::parse(in);
    if (!next) return {};
    auto server = bootstrap_address::parse(std::string(in.rest()));
    if (!server) return {};
    return world_call{std::move(*next), std::move(*server)};
  }
};

class meeting_point {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::size_t longest_frame = std::size_t{1} << 20;

  enum class purpose { unknown, meets, joins };
  struct caller {
    tcp_connection connection;
    time_point accepted;
    purpose what = purpose::unknown;
    member who{};
    generation_history history{};
    std::chrono::milliseconds window{};  // of a member: see meeting::agree
    std::string cause{};                 // of a member: why it has left its world
  };

  /// `host`: where it listens, see listener.
  explicit meeting_point(const std::string& host) : listener_(0, host) {}

  [[nodiscard]] int port() const { return listener_.port(); }
  /// Nobody can call any more.
  void close() {
    listener_.close();
    callers_.clear();
  }

  /// Set before the first receive().
  std::string secret{};
  generation_history history{};

  /// Accepts, receives, and drops those that have closed their connection.
  [[gnu::cold]] void receive(time_point now) {
    for (tcp_connection c; !(c = listener_.accept()).is_closed();) {
      if (callers_.size() >= most_callers()) std::erase_if(callers_, is_unknown);
      callers_.push_back({std::move(c), now});
    }
    for (std::size_t i = 0; i < callers_.size(); ++i) {
      caller& c = callers_[i];
      const auto f = c.connection.try_receive(longest_frame);
      const bool is_late = c.what == purpose::unknown && now - c.accepted > hello_timeout;
      if (f && c.what == purpose::unknown)
        admit(i, *f);
      else if (f || is_late)
        c.connection.close();
    }
    std::erase_if(callers_, [](const caller& c) { return c.connection.is_closed(); });
  }
  /// Null if none has called, or its connection has closed.
  [[nodiscard]] caller* find(purpose what, std::uint64_t id) {
    for (caller& c : callers_)
      if (c.what == what && c.who.id == id && !c.connection.is_closed()) return &c;
    return nullptr;
  }
  /// Why the first member that has called has left its world; empty where none has called.
  [[nodiscard]] std::optional<std::string> first_cause() const {
    for (const caller& c : callers_)
      if (c.what == purpose::meets) return c.cause;
    return {};
  }
  [[nodiscard]] std::vector<member> those_that(purpose what) const {
    std::vector<member> all;
    for (const caller& c : callers_)
      if (c.what == what) all.push_back(c.who);
    return all;
  }
  /// Forgets the members that have met: they meet again for the generation after.
  void end_meeting() {
    std::erase_if(callers_, [](const caller& c) { return c.what == purpose::meets; });
  }

  /// The payload of a member's first frame. `cause`: why it has left its world, of which
  /// longest_cause bytes are sent.
  [[nodiscard, gnu::cold]] std::string meet_text(const member& self,
                                                 std::chrono::milliseconds window,
                                                 std::string_view cause = {}) const {
    return concat(secret, " ", serialize(self), window.count(), " ", history.serialize(),
                  cause.substr(0, longest_cause));
  }
  /// The payload of a new process's first frame.
  [[nodiscard, gnu::cold]] std::string join_text(const member& self) const {
    return concat(secret, " ", serialize(self));
  }

 private:
  static constexpr std::chrono::seconds hello_timeout{5};
  static constexpr std::size_t longest_cause = 4096;

  static bool is_unknown(const caller& c) { return c.what == purpose::unknown; }
  [[nodiscard]] std::size_t most_callers() const { return 64 + 4 * history.members().size(); }

  // By the first frame.
  void admit(std::size_t index, const frame& f) {
    caller& c = callers_[index];
    word_reader in(f.payload);
    const auto given = in.word();
    auto who = parse_member(in);
    if ((f.kind != frame::meet && f.kind != frame::join) || !given || !who)
      return c.connection.close();  // speaks another protocol: no answer
    if (!equal_secrets(*given, secret))
      return refuse(c, "it has another secret: is it of another run?", {});
    place_at(*who, c.connection);
    const purpose what = f.kind == frame::meet ? purpose::meets : purpose::joins;
    if (what == purpose::meets) {
      const auto window = in.number<std::int64_t>(0, longest_deadline.count());
      auto known = generation_history::parse(in);
      if (!window || !known) return refuse(c, "it is of another version of cordee", secret);
      const std::vector<member> all = history.members();
      const bool is_member = std::ranges::find(all, who->id, &member::id) != all.end();
      if (!is_member && known->formed().number <= history.formed().number)
        return refuse(
            c,
            concat("the run has lost it, and is at generation ", history.formed().number, " now"),
            secret);
      // Sent before it promised the present generation, and received late.
      if (is_member && known->newest() < history.formed().number) return c.connection.close();
      c.history = std::move(*known);
      c.window = std::chrono::milliseconds(*window);
      c.cause = in.rest().substr(0, longest_cause);
      for (caller& other : callers_)  // it calls again: that call has the newer history
        if (other.what == what && other.who.id == who->id) other.connection.close();
    } else if (find(what, who->id) != nullptr) {
      return c.connection.close();  // by another address of this host
    }
    c.what = what;
    c.who = std::move(*who);
  }
  // With the run's secret for one that has it, which so knows that it is not another program that
  // refuses it, at the port of a member that has ended.
  static void refuse(caller& c, const std::string& why, const std::string& key) {
    std::fprintf(stderr, "cordee: refuses %s: %s\n", c.connection.peer_address().c_str(),
                 why.c_str());
    c.connection.send({frame::refused, 0, concat(key, key.empty() ? "" : " ", why)});
    c.connection.close();
  }
  // A process of this host may name the loopback, as may one of the other end's host.
  static void place_at(member& m, const tcp_connection& from) {
    const std::string peer = from.peer_address();
    if (is_loopback(m.address) && !peer.empty() && !is_loopback(peer)) m.address = peer;
  }

  listener listener_;
  std::vector<caller> callers_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
