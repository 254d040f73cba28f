// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/bootstrap/bootstrap_session.hpp>
#include <cordee/comm/transports/threads.hpp>

#include "tests/support/given_port.hpp"
#include "tests/support/ipv6.hpp"
#include "tests/support/printed_by.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/reserved_port.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using namespace detail::comm;
using support::error_message, support::contains, support::given_port;

TEST_CASE("bootstrap_session: every rank gathers the values of all, and leaves with all") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const std::string thrown = error_message([&] {
      threads::launch(ranks, [&](threads comm) {
        rendezvous_comm meet{comm};
        bootstrap_session session(meet, "127.0.0.1", 30s);
        for (int k = 0; k < 2; ++k) {
          std::vector<int> expected;
          for (int rank = 0; rank < ranks; ++rank) expected.push_back(10 * rank + k);
          CHECK(session.allgather(10 * comm.rank() + k) == expected);
        }
        std::atomic<int> polled = 0;
        session.leave([&] { ++polled; });
        CHECK(polled > 0);
        CHECK_FALSE(session.control().first_failure.happened());
        for (int rank = 0; rank < ranks; ++rank) CHECK(session.control().has_left(rank));
      });
    });
    CHECK(thrown == "");
  }
}

TEST_CASE(
    "bootstrap_session: without rank 0 a rank gives up at the deadline, and says where it was") {
  struct nobody {
    [[nodiscard]] static rank_assignment assignment() { return {1, 2, "the test"}; }
    [[nodiscard]] static int port() { return 0; }
    [[nodiscard]] static std::string host() { return {}; }
    [[nodiscard]] static std::string secret() { return {}; }
    void publish(const bootstrap_address&) const {}
    [[nodiscard]] std::optional<bootstrap_address> find() const {
      return bootstrap_address{1, "x", {"127.0.0.1"}};  // where nothing listens
    }
  } meet;
  CHECK(contains(error_message([&] { bootstrap_session(meet, "", 300ms); }),
                 "rank 1 waited 300 ms for rank 0 to answer at port 1 of 127.0.0.1 (Connection "
                 "refused)"));
}

TEST_CASE("bootstrap_session: ranks gather over IPv6's loopback") {
  if (!support::has_ipv6()) return;
  struct at_six : given_port {
    [[nodiscard]] static std::string host() { return "[::1]"; }
    [[nodiscard]] std::optional<bootstrap_address> find() const {
      return bootstrap_address{server_port, secret(), {host()}};
    }
  };
  const support::reserved_port reserved(AF_INET6);
  const int port = reserved.port;
  const auto gathered = support::on_ranks(3, [&](threads comm) {
    at_six meet{{{comm.rank(), 3, "the test"}, port}};
    bootstrap_session session(meet, meet.host(), 20s);
    const auto ranks = session.allgather(comm.rank());
    CHECK(session.control().server_address() == "::1");
    session.leave([] {});
    return ranks;
  });
  for (const auto& ranks : gathered) CHECK(ranks == std::vector{0, 1, 2});
}

TEST_CASE("bootstrap_session: a name that does not resolve is printed at once, with its variable") {
  struct unknown : given_port {
    [[nodiscard]] std::optional<bootstrap_address> find() const {
      return bootstrap_address{server_port, "x", {"no.such.name.invalid"}, "MASTER_ADDR"};
    }
  } meet{{{1, 2, "the test"}, 1}};
  const std::string why = resolve("no.such.name.invalid", 1).failure;
  std::string thrown;
  const std::string printed = support::printed_by(
      [&] { thrown = error_message([&] { bootstrap_session(meet, "", 300ms); }); });
  CHECK(printed == concat("cordee: rank 1: MASTER_ADDR=\"no.such.name.invalid\" does not resolve: ",
                          why, "; it is tried for 300 ms\n"));
  CHECK(contains(thrown, concat("port 1 of no.such.name.invalid (", why, ")").c_str()));
}

TEST_CASE("bootstrap_session: rank 0 reports a failure also to ranks that start after it") {
  const support::reserved_port reserved;
  const int port = reserved.port;
  const auto begin = std::chrono::steady_clock::now();
  const auto start = [&](int rank, int size) {
    given_port meet{{rank, size, "the test"}, port};
    bootstrap_session session(meet, meet.host(), 30s);
    const std::string thrown = error_message([&] { (void)session.allgather(rank); });
    session.leave([] {});
    return thrown;
  };
  std::string zero, one, two;
  const std::string printed = support::printed_by([&] {
    std::thread first([&] { zero = start(0, 3); });
    std::thread wrong([&] { one = error_message([&] { start(1, 4); }); });
    wrong.join();  // and rank 0's allgather has failed, or fails now
    std::this_thread::sleep_for(200ms);
    two = start(2, 3);
    first.join();
  });
  for (const std::string& text : {zero, one, two})
    CHECK(contains(text, "it is started as rank 1 of 4, but rank 0 as rank 0 of 3"));
  CHECK(contains(printed,
                 "cordee: rank 0 waits 10000 ms at most for rank 2 to start, to report: "
                 "rank 1: it is started as rank 1 of 4"));
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
}
