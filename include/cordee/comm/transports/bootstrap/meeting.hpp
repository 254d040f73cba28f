// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How the processes of an elastic run agree on the next generation (generation.hpp).
//
// Each calls every other member of the generations that it knows, with its history, and answers
// those that call (meeting_point.hpp). A member whose port refuses connections has ended. When all
// others have called or ended, or the window is over, the lowest rank among those that have called
// is the coordinator: it checks the quorum and the number of ranks, adds the processes that join
// behind the members, at most as many, starts the new world's server, and sends each of them the
// new generation with the server's address. Who receives it promises that generation, and joins the
// server: a message of an old world has another secret and other ports. If that world does not come
// about, since a process has ended meanwhile, those that live meet again.
//
// Two coordinators are possible where some cannot reach the lowest rank; two worlds are not, since
// each needs the promises of a quorum, and no process promises two generations of one number.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/bootstrap/generation.hpp>
#include <cordee/comm/transports/bootstrap/meeting_point.hpp>
#include <cordee/comm/transports/bootstrap/tcp_connection.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

[[nodiscard, gnu::cold]] inline std::uint64_t random_bits() {
  std::random_device bits;
  return (std::uint64_t{bits()} << 32 | bits()) | 1;  // no id is 0
}

/// What a meeting has agreed on.
struct next_world {
  generation next{};
  int rank = 0;
  std::optional<bootstrap_address> server{};  // empty on the coordinator, which starts it
  std::string change{};                       // "lost rank 1 at 10.0.0.7; 1 new rank"
};

/// A connection that this process opens to another one, once more where it is closed.
class outgoing_call {
  using clock = std::chrono::steady_clock;

 public:
  explicit outgoing_call(member to) : to_(std::move(to)) {}

  [[nodiscard]] const member& to() const { return to_; }
  [[nodiscard]] bool is_connected() const { return is_connected_; }
  /// Its port refuses connections, or another program has it: the process has ended.
  [[nodiscard]] bool is_refused() const { return is_refused_ || is_strange_; }
  /// Why it has refused this process, or the other program has; empty if neither.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  /// Whether the refusal has the run's secret.
  [[nodiscard]] bool is_refused_by_member() const { return !refusal_.empty() && !is_strange_; }
  /// Whether that is a coordinator's reason to end all that it meets.
  [[nodiscard]] bool has_ended_run() const { return has_ended_run_; }

  /// Connects, sends `kind` with text(this end's address), and receives. Returns the world that the
  /// other one calls for.
  template <class Text>
  [[gnu::cold]] std::optional<world_call> poll(frame::type kind, const Text& text,
                                               const std::string& secret) {
    if (is_strange_) return {};
    if (connection_.is_closed()) {
      is_connected_ = false;
      if (const auto now = clock::now(); now >= next_attempt_) {
        next_attempt_ = now + std::chrono::milliseconds(20);
        connection_ = tcp_connection::begin_connect(to_.address, to_.port);
        is_refused_ = connection_.is_closed();
      }
      return {};
    }
    if (!is_connected_) {
      is_connected_ = connection_.has_connected();
      is_refused_ = connection_.is_closed();
      if (is_connected_) connection_.send({kind, 0, text(connection_.local_address())});
      return {};
    }
    const auto f = connection_.try_receive(meeting_point::longest_frame);
    if (!f) return {};
    if (f->kind == frame::refused || f->kind == frame::failed) {
      word_reader in(f->payload);
      const auto given = in.word();
      is_strange_ = !given || !equal_secrets(*given, secret);
      refusal_ = is_strange_ ? f->payload : std::string(in.rest());
      has_ended_run_ = f->kind == frame::failed && !is_strange_;
    }
    if (f->kind != frame::world) return {};
    auto call = world_call::parse(f->payload, secret);
    const std::string peer = connection_.peer_address();
    if (call && !peer.empty() && !is_loopback(peer))
      for (member& m : call->next.members)  // of the sender's host
        if (is_loopback(m.address)) m.address = peer;
    return call;
  }

 private:
  const member to_;
  tcp_connection connection_;
  clock::time_point next_attempt_{};
  bool is_connected_ = false, is_refused_ = false, is_strange_ = false, has_ended_run_ = false;
  std::string refusal_;
};

/// One meeting of a process, `self`. `smallest`: the fewest ranks of a world. `failed`: the worlds
/// before.
class meeting {
 public:
  using clock = std::chrono::steady_clock;

  /// Beyond so many worlds of the same ranks that have failed without training, the failure is not
  /// of a rank but of the program.
  static constexpr int most_repetitions = 3;

  meeting(meeting_point& point, member self, int smallest, failed_worlds failed = {})
      : point_(point), self_(std::move(self)), smallest_(smallest), failed_(std::move(failed)) {
    for (const member& m : point_.history.members())
      if (m.id != self_.id) calls_.emplace_back(m);
  }

  /// Blocks until the next generation is agreed on, at most for five deadlines. `window`: how long
  /// members are awaited that have neither called nor ended; that of one that calls may be shorter,
  /// and then counts. Too few await the others for a deadline at least. A coordinator that has
  /// called, and is silent for two deadlines, is left out. Throws error where the ranks are too few
  /// or no quorum, where this process is refused, and when the time is over.
  [[gnu::cold]] next_world agree(std::chrono::milliseconds window,
                                 std::chrono::milliseconds deadline) {
    std::optional<next_world> result;
    window_ = window;
    const auto start = clock::now();
    const auto agreed = [&] {
      const auto now = clock::now();  // of those that have called until now
      point_.receive(now);
      result = poll_calls();
      if (!result) result = decide(now - start, deadline);
      return result.has_value();
    };
    if (!poll_until(agreed, std::min(5 * deadline, longest_deadline), std::chrono::milliseconds(1)))
      throw error(concat("elastic: no next generation was agreed on in time", describe_absent(),
                         ": some ranks may be cut off from others"));
    return std::move(*result);
  }
  /// After a coordinator's agree(): sends the new world to its members, and promises it.
  [[gnu::cold]] static void publish(meeting_point& point, const member& self,
                                    const generation& next, const bootstrap_address& server) {
    point.history.promise(next);
    const std::string text = world_call{next, server}.serialize(point.secret);
    for (const member& m : next.members) {
      if (m.id == self.id) continue;
      auto* c = point.find(meeting_point::purpose::meets, m.id);
      if (c == nullptr) c = point.find(meeting_point::purpose::joins, m.id);
      if (c != nullptr) c->connection.send({frame::world, 0, text});
    }
  }

 private:
  std::optional<next_world> poll_calls() {
    for (outgoing_call& call : calls_) {
      auto world = call.poll(
          frame::meet,
          [&](const std::string& address) {
            return point_.meet_text(self_at(address), window_, failed_.cause);
          },
          point_.secret);
      if (call.has_ended_run()) throw error(call.refusal());
      if (call.is_refused_by_member())
        throw error(
            concat("elastic: ", call.to().address, " refuses this process: ", call.refusal()));
      if (!world || !point_.history.may_promise(world->next)) continue;
      const int rank = world->next.rank_of(self_.id);
      if (rank <= 0) continue;
      point_.history.promise(world->next);
      return next_world{std::move(world->next), rank, std::move(world->server), {}};
    }
    return {};
  }
  [[nodiscard]] member self_at(const std::string& address) const {
    member self = self_;
    if (!address.empty()) self.address = address;
    return self;
  }
  [[nodiscard]] bool is_present(std::uint64_t id) const {
    return point_.find(meeting_point::purpose::meets, id) != nullptr;
  }

  // Empty on a rank that is not the coordinator, and while members are awaited.
  std::optional<next_world> decide(clock::duration waited, clock::duration deadline) {
    auto silent = waited / (2 * deadline);  // so many lower ones that can be called do not decide
    bool reaches_all = true;
    generation_history known = point_.history;
    auto window = window_;
    for (const outgoing_call& call : calls_) {
      const auto* c = point_.find(meeting_point::purpose::meets, call.to().id);
      reaches_all = reaches_all && (c != nullptr ? call.is_connected() : call.is_refused());
      if (c == nullptr) continue;
      known.merge(c->history);
      window = std::min(window, c->window);
    }
    if (!reaches_all && waited < window) return {};
    generation next{known.newest() + 1, random_bits(), {}};
    std::vector<std::uint64_t> ids;
    for (const member& m : known.members()) {
      const bool is_self = m.id == self_.id, is_lower = ids.empty() && !is_self;
      if (!is_self && !is_present(m.id)) continue;
      if (is_lower && can_call(m.id)) {
        if (silent-- <= 0) return {};
        continue;
      }
      if (is_lower) continue;  // it called, and cannot be called: it has no server for this process
      ids.push_back(m.id);
      next.members.push_back(m);
    }
    const generation* const g = known.without_quorum(ids);
    const bool is_final = reaches_all || waited >= std::max<clock::duration>(window, deadline);
    if (g != nullptr && !is_final) return {};
    if (g != nullptr)
      end_run(concat("elastic: ", count_of(ids.size()), " of the ", g->members.size(),
                     " of generation ", g->number, describe_absent(),
                     ": more than half must go on, or half with its rank 0, since the others may "
                     "go on as well"));
    next_world result{{}, 0, {}, describe_lost(known.formed(), ids)};
    std::size_t joined = 0;
    for (const member& m : point_.those_that(meeting_point::purpose::joins))
      if (joined < ids.size() && next.rank_of(m.id) < 0) {
        next.members.push_back(m);
        ++joined;
      }
    const bool is_small = static_cast<int>(next.members.size()) < smallest_;
    if (is_small && !is_final) return {};
    if (is_small)
      end_run(concat("elastic: ", count_of(next.members.size()), describe_absent(),
                     ", fewer than elastic{.smallest = ", smallest_, "}"));
    // Decided here, and sent to all: ranks that decided alone would be lost ones to the others.
    if (failed_.count > most_repetitions && failed_.are(next.members))
      end_run(concat("elastic: ", failed_.count,
                     " worlds of the same ranks have failed: ", failed_.cause));
    if (joined > 0)
      result.change += concat(result.change.empty() ? "" : "; ", joined,
                              joined == 1 ? " new rank" : " new ranks");
    point_.history.merge(known);
    result.next = std::move(next);
    return result;
  }
  // On all that are present.
  [[noreturn, gnu::cold]] void end_run(const std::string& why) const {
    for (const outgoing_call& call : calls_)
      if (auto* c = point_.find(meeting_point::purpose::meets, call.to().id))
        c->connection.send({frame::failed, 0, concat(point_.secret, " ", why)});
    throw error(why);
  }
  [[nodiscard]] bool can_call(std::uint64_t id) const {
    return std::ranges::any_of(calls_, [id](const outgoing_call& call) {
      return call.to().id == id && call.is_connected();
    });
  }

  [[nodiscard, gnu::cold]] static std::string count_of(std::size_t ranks) {
    return concat(ranks, ranks == 1 ? " rank is left" : " ranks are left");
  }
  [[nodiscard, gnu::cold]] std::string describe_absent() const {
    std::string text;
    for (const outgoing_call& call : calls_)
      if (!is_present(call.to().id))
        text +=
            concat(text.empty() ? " (without " : ", ", with_port(call.to().address, call.to().port),
                   call.is_refused() ? ", which has ended" : ", which does not answer");
    return text.empty() ? "" : text + ")";
  }
  [[nodiscard, gnu::cold]] static std::string describe_lost(const generation& before,
                                                            const std::vector<std::uint64_t>& ids) {
    std::string text;
    for (std::size_t rank = 0; rank < before.members.size(); ++rank)
      if (std::ranges::find(ids, before.members[rank].id) == ids.end())
        text += concat(text.empty() ? "lost rank " : ", rank ", rank, " at ",
                       before.members[rank].address);
    return text;
  }

  meeting_point& point_;
  const member self_;
  const int smallest_;
  const failed_worlds failed_;
  std::chrono::milliseconds window_{};
  std::vector<outgoing_call> calls_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
