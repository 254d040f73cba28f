// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One rank's part in the start of a run of processes without MPI: rank 0 starts its server, every
// rank connects to it, and values are gathered over it. The connections stay until the run's end.
#pragma once

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ifaddrs.h>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/transports/bootstrap/bootstrap_server.hpp>
#include <cordee/comm/transports/bootstrap/client.hpp>
#include <cordee/comm/transports/bootstrap/rendezvous.hpp>
#include <cordee/comm/transports/host_info.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class bootstrap_session {
 public:
  /// `host`: where rank 0's server listens, see listener. Throws at the deadline.
  template <Rendezvous R>
  [[gnu::cold]] bootstrap_session(R& rendezvous, const std::string& host,
                                  std::chrono::milliseconds wait_limit)
      : self(rendezvous.assignment()), deadline(wait_limit) {
    expects(self.size > 0 && self.rank < self.size, "launch: a rank beyond the number of ranks");
    std::string secret;
    if (self.rank == 0) {
      secret = rendezvous.port() == 0 ? random_secret() : rendezvous.secret();
      server_.emplace(self.size, rendezvous.port(), secret, deadline, host);
      rendezvous.publish({server_->port(), secret, names_of_this_host()});
    }
    tcp_connection connection;
    bootstrap_client::join_failure failure;
    std::string tried;
    const auto connected = [&] {
      const auto address =
          self.rank == 0 ? bootstrap_address{server_->port(), secret, {server_->local_address()}}
                         : rendezvous.find();
      if (!address) return false;
      const bool is_first = std::exchange(tried, address->describe()).empty();
      if (is_first) check_name(*address);
      const hello hello_frame{self.rank, self.size};  // nvcc 13 loses bare braces
      connection = bootstrap_client::join(address->hosts, address->port, hello_frame,
                                          address->secret, &failure);
      // A file's address may be that of an earlier run, and change.
      if (failure.is_refused && rendezvous.port() != 0)
        throw error(concat("rank 0 at ", tried, " refuses rank ", self.rank, ": ", failure.text));
      return !connection.is_closed();
    };
    if (!poll_until(connected, deadline, std::chrono::milliseconds(50)))
      throw error(concat("rank ", self.rank, " waited ", deadline.count(),
                         " ms for rank 0 to answer",
                         tried.empty() ? ", and found no address of it"
                                       : concat(" at ", tried, " (", failure.text, ")"),
                         ": it did not start or has ended, cannot be reached from this host, has "
                         "another secret (CORDEE_SECRET_KEY), or has all its ranks already"));
    control_.emplace(self, std::move(connection));
  }

  [[nodiscard]] bootstrap_client& control() { return *control_; }

  /// Every rank's value, by rank. Collective; throws as bootstrap_client::allgather.
  template <class T>
  [[nodiscard, gnu::cold]] std::vector<T> allgather(const T& own) {
    std::vector<T> values;
    for (const std::string& bytes : control_->allgather(to_bytes(own), deadline))
      values.push_back(from_bytes<T>(bytes));
    return values;
  }

  /// Leaves, and returns when all have left, or after a failure when the grace period is over: then
  /// the launcher has to end the ranks that are stuck. If the run has failed before all ranks had
  /// started, rank 0 reports it to those that start within that time. Calls poll() while it waits.
  template <class Poll>
  [[gnu::cold]] void leave(const Poll& poll) {
    control_->leave();
    const auto remaining = [&] {
      control_->poll();
      poll();
      return control_->remaining();
    };
    if (const std::string ranks =
            await_leaving(self.rank, deadline, control_->first_failure, remaining);
        !ranks.empty())
      std::fprintf(stderr, "cordee: rank %d ends, but not yet %s\n", self.rank, ranks.c_str());
    if (control_->is_server_silent()) control_->first_failure.note_silent_server();
    if (server_ && control_->first_failure.happened()) await_late_ranks();
  }

  /// Its name, which other hosts may resolve, its addresses, IPv4's first, and the loopback.
  /// Without those that hold with an interface of this host alone.
  [[gnu::cold]] static std::vector<std::string> names_of_this_host() {
    std::vector<std::string> names{host_info::local().name}, six;
    ifaddrs* interfaces = nullptr;
    if (getifaddrs(&interfaces) == 0) {
      for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr == nullptr) continue;
        const bool is_four = i->ifa_addr->sa_family == AF_INET;
        if (!is_four && i->ifa_addr->sa_family != AF_INET6) continue;
        const std::string address =
            socket_address(i->ifa_addr, is_four ? sizeof(sockaddr_in) : sizeof(sockaddr_in6))
                .host();
        if (!is_loopback(address) && address.find('%') == std::string::npos)
          (is_four ? names : six).push_back(address);
      }
      freeifaddrs(interfaces);
    }
    names.insert(names.end(), six.begin(), six.end());
    names.emplace_back("127.0.0.1");
    return names;
  }

  const rank_assignment self;
  const std::chrono::milliseconds deadline;

 private:
  // A name may become known while a cluster starts its hosts, so it is tried until the deadline.
  [[gnu::cold]] void check_name(const bootstrap_address& address) const {
    if (address.source.empty()) return;
    const std::string why = resolve(address.hosts.front(), address.port).failure;
    if (why.empty()) return;
    std::fprintf(stderr,
                 "cordee: rank %d: %s=\"%s\" does not resolve: %s; it is tried for %lld ms\n",
                 self.rank, address.source.c_str(), address.hosts.front().c_str(), why.c_str(),
                 static_cast<long long>(deadline.count()));
  }
  // Prints the cause first: a launcher may end this process when another one has ended.
  [[gnu::cold]] void await_late_ranks() const {
    const std::string missing = server_->not_informed();
    if (missing.empty()) return;
    const auto grace = grace_period(deadline);
    std::fprintf(stderr, "cordee: rank 0 waits %lld ms at most for %s to start, to report: %s\n",
                 static_cast<long long>(grace.count()), missing.c_str(),
                 control_->first_failure.cause().c_str());
    poll_until([&] { return server_->not_informed().empty(); }, grace,
               std::chrono::milliseconds(10));
  }

  std::optional<bootstrap_client> control_;
  // Rank 0's server; destroyed first, for while it runs it reports to the others that control_
  // closed.
  std::optional<bootstrap_server> server_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
