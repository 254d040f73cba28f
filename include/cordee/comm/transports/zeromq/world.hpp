// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the contexts of one rank of zeromq::launch share: the bootstrap's control connection, which
// every wait polls, and the mesh of data connections.
//
// libzmq's sockets are used by one thread at a time, under a mutex, by the threads that wait; its
// own thread moves the bytes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/bootstrap/bootstrap_session.hpp>
#include <cordee/comm/transports/bootstrap/socket_address.hpp>
#include <cordee/comm/transports/host_info.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/comm/transports/zeromq/batch.hpp>
#include <cordee/comm/transports/zeromq/mesh.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class zeromq_world {
 public:
  /// `listen`: the address or interface at which ranks receive.
  template <Rendezvous R>
  [[gnu::cold]] zeromq_world(R rendezvous, std::chrono::milliseconds wait_limit,
                             const std::string& listen)
      : deadline(wait_limit),
        bootstrap_(rendezvous, bootstrap_host(rendezvous.host(), listen), wait_limit),
        self_(bootstrap_.self),
        control_(bootstrap_.control()) {
    try {
      start(listen);
    } catch (const std::exception& e) {
      fail(e.what());
      bootstrap_.leave([] {});
      throw;
    }
  }
  zeromq_world(const zeromq_world&) = delete;
  zeromq_world& operator=(const zeromq_world&) = delete;

  [[nodiscard]] int rank() const { return self_.rank; }
  [[nodiscard]] int size() const { return self_.size; }
  [[nodiscard]] const failure& first_failure() const { return control_.first_failure; }
  [[nodiscard]] bool has_left(int rank) {
    const std::scoped_lock lock(mutex_);
    return control_.has_left(rank) || mesh_->has_left(rank);
  }

  /// Blocks until all transfers are complete, or throws.
  void exchange(int context, zeromq_batch::receives in, zeromq_batch::sends out) {
    try {
      std::optional<zeromq_batch> batch;
      {
        const std::scoped_lock lock(mutex_);
        if (first_failure().happened())
          throw error(concat("rank ", rank(), " aborted: ", first_failure().cause()));
        batch.emplace(*mesh_, rank(), context, in, out);
      }
      exchange_wait wait{*this, *batch};
      await_peers(wait, control_, mutex_, limits_of(context));
    } catch (const std::exception& e) {
      has_lost_peers_ = true;
      fail(e.what());  // no effect where the exception reports the run's failure
      throw;
    }
  }

  /// The sender of the first message on a context; see AnySource.
  [[gnu::cold]] int probe_any(int context, std::span<const int> expected) {
    probe_wait wait{*this, context, expected};
    wait_limits limits = limits_of(context);
    if (expected.empty()) limits.deadline = wait_limits::duration::max();
    limits.waits_idle = true;
    try {
      await_peers(wait, control_, mutex_, limits);
    } catch (const std::exception&) {
      has_lost_peers_ = true;
      throw;
    }
    return wait.sender;
  }

  /// Sends the cause of the run's failure to every rank; the first cause counts.
  void fail(const std::string& cause) { control_.fail(cause); }

  /// See bootstrap_session::leave. Throws error for a message to this rank that was never received.
  [[gnu::cold]] void leave() {
    bootstrap_.leave([&] {
      const std::scoped_lock lock(mutex_);
      if (!first_failure().happened()) mesh_->poll();
    });
    if (control_.has_lost_server()) return leave_without_server();
    if (first_failure().happened()) return;
    mesh_->linger(static_cast<int>(grace_period(deadline).count()));
    if (const std::string why = mesh_->unreceived(); !why.empty()) {
      control_.first_failure.record(rank(), why);
      throw error(first_failure().describe());  // no other rank has this failure
    }
  }

  /// Whether an exchange has thrown: what ends this rank is no failure of its own.
  [[nodiscard]] bool has_lost_peers() const { return has_lost_peers_; }
  /// Leaves. Returns true when all ranks have left; false, where the run has failed or fails, once
  /// the others that live have left too, which have a moment for it. For runs that continue in
  /// another world (elastic.hpp).
  [[nodiscard, gnu::cold]] bool leave_or_fail() {
    control_.leave();
    auto failed_since = wait_timer::clock::time_point::max();
    const auto ended = [&] {
      control_.poll();
      const std::scoped_lock lock(mutex_);
      const auto now = wait_timer::clock::now();
      if (!first_failure().happened())
        mesh_->poll();
      else
        failed_since = std::min(failed_since, now);
      return control_.remaining().empty() ||
             (failed_since < now && now - failed_since > failed_grace);
    };
    while (!ended()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (first_failure().happened()) return false;
    mesh_->linger(static_cast<int>(grace_period(deadline).count()));
    return true;
  }
  /// Every rank's value, by rank. Collective.
  template <class T>
  [[nodiscard, gnu::cold]] std::vector<T> allgather(const T& own) {
    return bootstrap_.allgather(own);
  }
  /// Addresses of the control connection: this rank's end, and rank 0's.
  [[nodiscard]] std::string local_address() const { return control_.local_address(); }
  [[nodiscard]] std::string server_address() const { return control_.server_address(); }

  const std::chrono::milliseconds deadline;
  node_info node;

 private:
  struct rank_info {
    host_info host;
    std::int32_t port;
    char address[address_text_size], secret[33];
  };
  struct exchange_wait {
    zeromq_world& world;
    zeromq_batch& batch;

    bool ready() const {
      world.mesh_->poll();
      return batch.progress();
    }
    static constexpr bool started() { return true; }
    void inspect() const { world.check_connections(); }
    void idle() const { world.mesh_->await(poll_interval); }
    [[nodiscard]] int left_peer() const { return left_peer_among(world.control_, batch); }
    [[nodiscard]] std::string describe() const { return batch.describe_pending(); }
  };
  struct probe_wait {
    zeromq_world& world;
    int context;
    std::span<const int> expected;
    int sender = -1;

    bool ready() {
      world.mesh_->poll();
      sender = world.mesh_->first_sender(context);
      return sender >= 0;
    }
    static constexpr bool started() { return true; }
    void inspect() const { world.check_connections(); }
    void idle() const { world.mesh_->await(poll_interval); }
    [[nodiscard]] int left_peer() const { return left_peer_of(world.control_, expected); }
    [[nodiscard]] std::string describe() const { return describe_sources(expected, context); }
  };

  [[gnu::cold]] void start(const std::string& listen) {
    rank_info own{};
    own.host = host_info::local();
    if (rank() == 0) random_secret().copy(own.secret, sizeof own.secret - 1);
    const std::string secret = bootstrap_.allgather(own).front().secret;
    mesh_.emplace(self_, listen, secret);
    own.port = mesh_->port();
    mesh_->address().copy(own.address, sizeof own.address - 1);
    if (mesh_->address() == "0.0.0.0" || mesh_->address() == "::") {
      std::memset(own.address, 0, sizeof own.address);
      control_.local_address().copy(own.address, sizeof own.address - 1);
    }
    const std::vector<rank_info> ranks = bootstrap_.allgather(own);
    const std::string server = control_.server_address();
    std::vector<host_info> hosts;
    std::vector<std::string> addresses, endpoints;
    for (const rank_info& r : ranks) {
      hosts.push_back(r.host);
      // A rank on rank 0's host has the loopback as its address, at which others do not reach it.
      const bool is_replaced = is_loopback(r.address) && !is_loopback(server);
      addresses.push_back(with_port(is_replaced ? server : r.address, r.port));
      endpoints.push_back("tcp://" + addresses.back());
    }
    control_.first_failure.set_addresses(std::move(addresses));
    node = node_info::of(rank(), hosts);
    mesh_->connect(endpoints);
    std::string missing;
    const auto joined = [&] {
      missing = mesh_->join();
      control_.poll();
      return missing.empty() || first_failure().happened();
    };
    const bool in_time = poll_until(joined, deadline, std::chrono::microseconds(200));
    if (first_failure().happened())
      throw error(concat("rank ", rank(), " aborted: ", first_failure().cause()));
    if (!in_time)
      throw error(concat("rank ", rank(), " waited ", deadline.count(), " ms for ", missing,
                         ": a firewall between the hosts, or an address that they cannot reach "
                         "(zeromq::options{.listen})"));
  }

  // Rank 0's server listens to other hosts only where the ranks do.
  [[gnu::cold]] static std::string bootstrap_host(const std::string& host,
                                                  const std::string& listen) {
    if (!resolve(listen, 0).has_loopback_only()) return host;
    if (host.empty()) return listen;
    const resolved_host rank_0 = resolve(host, 0);
    if (!rank_0.failure.empty())
      throw error(concat("zeromq::launch: rank 0 is at ", host,
                         ", which does not resolve: ", rank_0.failure));
    if (!rank_0.has_loopback_only())
      throw usage_error(
          concat("zeromq::launch: rank 0 is at ", host, ", but ranks listen at ", listen,
                 ", which other hosts cannot reach: zeromq::options{.listen = \"*\"} or an "
                 "interface's name"));
    return rank_0.addresses.front().host();
  }

  // Rank 0's process has died: those that live send each other that they leave.
  [[gnu::cold]] void leave_without_server() {
    const auto all_left = [&] {
      const std::scoped_lock lock(mutex_);
      return mesh_->leave();
    };
    poll_until(all_left, grace_period(deadline), std::chrono::microseconds(200));
    mesh_->linger(static_cast<int>(grace_period(deadline).count()));
  }

  // Throws where the connection of a rank that has not left is closed.
  [[gnu::cold]] void check_connections() {
    const std::vector<int>& closed = mesh_->disconnected_ranks();
    const auto is_lost = [this](int rank) { return !control_.has_left(rank); };
    const auto found = std::ranges::find_if(closed, is_lost);
    const int lost = found == closed.end() ? -1 : *found;
    // Within the grace the control connection may say more, or has said it by now.
    if (!lost_timer_.left_for_good(lost, wait_timer::clock::now())) return;
    control_.poll();
    if (!first_failure().happened() && !control_.has_left(lost))
      throw error(concat("the connection of ", first_failure().name_of(lost),
                         " has closed: the network, or its node, has failed"));
  }

  // A server that owes a reply waits for requests, and its own error names the rank that it waits
  // for: workers wait a little longer.
  [[nodiscard]] wait_limits limits_of(int context) const {
    return {.rank = rank(),
            .deadline = context == reply_context ? deadline * 5 / 4 : deadline,
            .option = "zeromq::options{.deadline}",
            .control_after = std::chrono::milliseconds(1),
            .inspect_every = std::chrono::milliseconds(20),
            .left_grace = left_grace};
  }

  // A peer's last chunks and its leaving travel on two connections.
  static constexpr std::chrono::milliseconds left_grace{1000};
  // For which rank 0 still passes a failure on, where a rank does not end.
  static constexpr std::chrono::milliseconds failed_grace{300};

  bootstrap_session bootstrap_;
  const rank_assignment& self_;
  bootstrap_client& control_;
  std::mutex mutex_;  // guards the mesh
  std::atomic<bool> has_lost_peers_{false};
  std::optional<zeromq_mesh> mesh_;
  wait_timer lost_timer_{{}, {}, left_grace};  // of the first rank whose connection is lost
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
