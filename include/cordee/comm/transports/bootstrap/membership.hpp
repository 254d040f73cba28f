// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One process's membership of an elastic run, over all of its worlds: the first one, which the
// run's rendezvous forms, and those that meetings agree on (meeting.hpp).
//
// While a world runs, a thread answers at the meeting point. A member that calls there has lost a
// rank, and a process that calls to join is admitted: both fail the world, so that all ranks leave
// it at their next exchange and meet.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/bootstrap/bootstrap_session.hpp>
#include <cordee/comm/transports/bootstrap/meeting.hpp>
#include <cordee/comm/transports/bootstrap/meeting_point.hpp>
#include <cordee/comm/transports/bootstrap/rendezvous.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

struct membership_options {
  int smallest;
  std::string path;  // of the file by which new processes find the run; empty: there is none
  bool joins;        // this process is new
  std::chrono::milliseconds settle, deadline;
  std::string listen;
};

class membership {
 public:
  explicit membership(membership_options o)
      : options_(std::move(o)), point_(bound_host(options_.listen)) {}
  membership(const membership&) = delete;
  membership& operator=(const membership&) = delete;
  ~membership() { unwatch(); }

  [[nodiscard]] const generation& current() const { return point_.history.formed(); }

  /// Makes the ranks of a world the first generation. Collective over them.
  template <class World>
  [[gnu::cold]] void found(World& world) {
    place own{};
    own.id = random_bits();
    own.port = point_.port();
    world.local_address().copy(own.address, sizeof own.address - 1);
    if (world.rank() == 0) {
      random_secret().copy(own.secret, sizeof own.secret - 1);
      own.nonce = random_bits();
    }
    const std::vector<place> places = world.allgather(own);
    const std::string server = world.server_address();
    generation first{1, places.front().nonce, {}};
    for (const place& p : places)
      first.members.push_back(
          {p.id, is_loopback(p.address) && !is_loopback(server) ? server : p.address, p.port});
    point_.secret = places.front().secret;
    self_ = first.members[static_cast<std::size_t>(world.rank())];
    point_.history = generation_history(std::move(first));
    publish_place(world.rank());
  }
  /// Agrees on the next generation with the others or, as a new process, finds the run and joins
  /// it. Throws error where there is none for this process. `window`: see meeting::agree.
  [[gnu::cold]] next_world meet(std::chrono::milliseconds window) {
    if (current().number == 0) return join();
    return meeting(point_, self_, options_.smallest, failed_).agree(window, options_.deadline);
  }
  /// The world of these members has failed; see failed_worlds. One that ended for a new rank has
  /// not.
  [[gnu::cold]] void note_failed(std::vector<member> members, const std::string& cause,
                                 bool has_trained) {
    failed_.note(std::move(members), cause, has_trained || is_admitting_.exchange(false));
  }
  /// Called by the coordinator when it has started the next world's server.
  void publish(const generation& next, const bootstrap_address& server) {
    meeting::publish(point_, self_, next, server);
  }
  /// The world is complete: all of its members have promised it.
  [[gnu::cold]] void form(const next_world& world) {
    point_.history.form(world.next);
    point_.end_meeting();
    publish_place(world.rank);
    if (world.rank == 0)
      std::fprintf(stderr, "cordee: generation %lld has %zu ranks: %s\n",
                   static_cast<long long>(world.next.number), world.next.members.size(),
                   world.change.empty() ? "those of before" : world.change.c_str());
  }

  /// Answers at the meeting point until unwatch(), and fails the world when its ranks have to meet.
  template <class World>
  void watch(World& world) {
    stops_ = false;
    admits_ = true;
    watcher_ = std::thread([this, &world] {
      const auto start = std::chrono::steady_clock::now();
      for (bool has_failed = false; !stops_; std::this_thread::sleep_for(interval)) {
        const auto now = std::chrono::steady_clock::now();
        point_.receive(now);
        if (has_failed) continue;
        const auto left = point_.first_cause();
        const bool joins = admits_ && world.rank() == 0 && now - start > options_.settle &&
                           !point_.those_that(meeting_point::purpose::joins).empty();
        if (!left && !joins) continue;
        is_admitting_ = !left;
        world.fail(left ? describe_left(*left) : "a new rank joins");
        has_failed = true;
      }
    });
  }
  /// This rank has completed its part: it admits no new ranks any more.
  void stop_admitting() { admits_ = false; }
  void unwatch() {
    stops_ = true;
    if (watcher_.joinable()) watcher_.join();
  }

 private:
  struct place {
    std::uint64_t id, nonce;
    std::int32_t port;
    char address[address_text_size], secret[33];
  };
  static constexpr std::chrono::milliseconds interval{10};
  static constexpr std::string_view left_text = "another rank has left this generation";

  // With the cause, which may arrive here sooner than by way of rank 0.
  [[nodiscard, gnu::cold]] static std::string describe_left(const std::string& cause) {
    if (cause.find(left_text) != std::string::npos) return cause;
    return concat(left_text, cause.empty() ? "" : ": ", cause);
  }

  [[nodiscard, gnu::cold]] static std::string bound_host(const std::string& listen) {
    return resolve(listen, 0).has_loopback_only() ? listen : std::string();
  }
  // Rank 0's meeting point, for new processes.
  [[gnu::cold]] void publish_place(int rank) const {
    if (rank != 0 || options_.path.empty()) return;
    const std::string only = bound_host(options_.listen);
    rendezvous_file{options_.path}.publish(
        {point_.port(), point_.secret,
         only.empty() ? bootstrap_session::names_of_this_host() : std::vector<std::string>{only}});
  }
  // Calls rank 0 by the file, once more where another one has become rank 0.
  [[gnu::cold]] next_world join() {
    const rendezvous_file file{options_.path};
    self_ = {random_bits(), "127.0.0.1", point_.port()};
    std::string called, why = "there is no such file";
    std::vector<outgoing_call> calls;
    std::optional<next_world> result;
    const auto admitted = [&] {
      const auto address = file.find();
      if (address && address->serialize() != called) {
        called = address->serialize();
        point_.secret = address->secret;
        calls.clear();
        for (const std::string& host : address->hosts)
          calls.emplace_back(member{0, host, address->port});
      }
      point_.receive(std::chrono::steady_clock::now());
      for (outgoing_call& call : calls) {
        auto world = call.poll(
            frame::join,
            [&](const std::string& own) {
              if (!own.empty()) self_.address = own;
              return point_.join_text(self_);
            },
            point_.secret);
        if (call.is_refused() && call.refusal().empty())
          why = concat("nothing answers at ", address->describe());
        if (call.is_connected()) why = concat("it does not admit this process: ", call.refusal());
        if (!world) continue;
        const int rank = world->next.rank_of(self_.id);
        if (rank <= 0) continue;
        point_.history = {};
        point_.history.promise(world->next);
        result = next_world{std::move(world->next), rank, std::move(world->server), {}};
        return true;
      }
      return false;
    };
    if (!poll_until(admitted, options_.deadline, std::chrono::milliseconds(5)))
      throw error(concat("elastic: waited ", options_.deadline.count(), " ms for the run of ",
                         options_.path, " to admit this process: ", why));
    return std::move(*result);
  }

  const membership_options options_;
  meeting_point point_;
  member self_;
  failed_worlds failed_;
  std::atomic<bool> stops_{false}, admits_{true}, is_admitting_{false};
  std::thread watcher_;
};

/// The rendezvous of a generation that a meeting has agreed on.
struct generation_rendezvous {
  membership& members;
  const next_world& world;

  [[nodiscard]] rank_assignment assignment() const {
    return {world.rank, static_cast<int>(world.next.members.size()), "the generation's members"};
  }
  [[nodiscard]] static int port() { return 0; }
  [[nodiscard]] static std::string host() { return {}; }
  [[nodiscard]] static std::string secret() { return {}; }
  void publish(const bootstrap_address& server) const { members.publish(world.next, server); }
  [[nodiscard]] std::optional<bootstrap_address> find() const {
    bootstrap_address server = *world.server;
    server.hosts.insert(server.hosts.begin(), world.next.members.front().address);
    return server;
  }
};
static_assert(Rendezvous<generation_rendezvous>);

}  // namespace cordee::inline CORDEE_ABI::detail::comm
