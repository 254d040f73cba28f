// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One rank's part in the start of a run of processes without MPI: rank 0 starts its server, every
// rank connects to it, and values are gathered over it. The connections stay until the run's end.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <ifaddrs.h>

#include <cordee/comm/bootstrap/bootstrap_server.hpp>
#include <cordee/comm/bootstrap/client.hpp>
#include <cordee/comm/bootstrap/rendezvous.hpp>
#include <cordee/comm/host_info.hpp>
#include <cordee/comm/poll_until.hpp>

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
    std::string tried;
    const auto connected = [&] {
      const auto address =
          self.rank == 0 ? bootstrap_address{server_->port(), secret, {server_->local_address()}}
                         : rendezvous.find();
      if (!address) return false;
      tried = address->describe();
      const hello hello_frame{self.rank, self.size};  // nvcc 13 loses bare braces
      connection =
          bootstrap_client::join(address->hosts, address->port, hello_frame, address->secret);
      return !connection.is_closed();
    };
    if (!poll_until(connected, deadline, std::chrono::milliseconds(50)))
      throw error(concat("rank ", self.rank, " waited ", deadline.count(),
                         " ms for rank 0 to answer",
                         tried.empty() ? ", and found no address of it" : concat(" at ", tried),
                         ": it did not start, cannot be reached from this host, has another secret "
                         "(CORDEE_SECRET_KEY), or has all its ranks already"));
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
  /// the launcher has to end the ranks that are stuck. Calls poll() while it waits.
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
  }

  const rank_assignment self;
  const std::chrono::milliseconds deadline;

 private:
  // Its name, which other hosts may resolve, its addresses, and the loopback.
  [[gnu::cold]] static std::vector<std::string> names_of_this_host() {
    std::vector<std::string> names{host_info::local().name};
    ifaddrs* interfaces = nullptr;
    if (getifaddrs(&interfaces) == 0) {
      for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
        char text[INET_ADDRSTRLEN];
        const auto& address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
        if (inet_ntop(AF_INET, &address, text, sizeof text) != nullptr &&
            std::strcmp(text, "127.0.0.1") != 0)
          names.emplace_back(text);
      }
      freeifaddrs(interfaces);
    }
    names.emplace_back("127.0.0.1");
    return names;
  }

  std::optional<bootstrap_client> control_;
  // Of rank 0; it ends first, for while it runs it reports to the others that control_ closed.
  std::optional<bootstrap_server> server_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
