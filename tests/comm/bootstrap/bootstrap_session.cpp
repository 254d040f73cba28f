// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/bootstrap/bootstrap_session.hpp>
#include <cordee/comm/threads.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using namespace detail::comm;
using support::error_message, support::contains;

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
                 "rank 1 waited 300 ms for rank 0 to answer at port 1 of 127.0.0.1"));
}
