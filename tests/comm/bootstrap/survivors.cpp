// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks are threads without a transport; one whose connections close before it leaves has died.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/bootstrap/survivors.hpp>
#include <cordee/comm/failure.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using namespace detail::comm;
using support::contains;

namespace {

struct given_port {
  rank_assignment rank;
  int server_port;
  [[nodiscard]] rank_assignment assignment() const { return rank; }
  [[nodiscard]] int port() const { return server_port; }
  [[nodiscard]] static std::string host() { return "127.0.0.1"; }
  [[nodiscard]] static std::string secret() { return "of the test"; }
  void publish(const bootstrap_address&) const {}
  [[nodiscard]] std::optional<bootstrap_address> find() const {
    return bootstrap_address{server_port, secret(), {host()}};
  }
};

/// What nccl_world is without NCCL.
class world {
 public:
  world(given_port rendezvous, std::chrono::milliseconds deadline)
      : session_(rendezvous, rendezvous.host(), deadline),
        survivors_(session_, rendezvous.host()) {}

  [[nodiscard]] int rank() const { return session_.self.rank; }
  [[nodiscard]] const failure& first_failure() { return session_.control().first_failure; }
  [[nodiscard]] bool has_left(int rank) {
    return session_.control().has_left(rank) || survivors_.has_left(rank);
  }
  void fail(const std::string& cause) { session_.control().fail(cause); }
  void leave() {
    session_.leave([] {});
    if (session_.control().has_lost_server()) survivors_.meet(grace_period(session_.deadline));
  }
  [[nodiscard]] int port() const { return survivors_.port(); }
  /// Returns when the run has failed.
  void wait() {
    while (!first_failure().happened()) {
      session_.control().poll();
      std::this_thread::sleep_for(1ms);
    }
  }

 private:
  bootstrap_session session_;
  bootstrap_survivors survivors_;
};

/// How the ranks end of which these die: "error: " or "aborted: " and what is thrown.
std::vector<std::string> ends(int ranks, const std::vector<int>& dying,
                              std::chrono::milliseconds deadline) {
  const int port = listener(0, given_port::host()).port();  // free a moment later
  std::vector<std::string> ended(static_cast<std::size_t>(ranks));
  std::barrier all_run(ranks);
  std::vector<std::thread> team;
  for (int rank = 0; rank < ranks; ++rank)
    team.emplace_back([&, rank] {
      std::string& text = ended[static_cast<std::size_t>(rank)];
      try {
        world w(given_port{{rank, ranks, "the test"}, port}, deadline);
        all_run.arrive_and_wait();
        if (std::ranges::count(dying, rank) > 0) {
          text = "died";
          return;
        }
        run_rank(w, [&] {
          w.wait();
          throw error("aborted");
        });
      } catch (const aborted& e) {
        text = concat("aborted: ", e.what());
      } catch (const std::exception& e) {
        text = concat("error: ", e.what());
      }
    });
  for (std::thread& t : team) t.join();
  return ended;
}
/// "1 3 ": the ranks that throw error, at which their programs print the cause.
std::string reporters(const std::vector<std::string>& ended) {
  std::string ranks;
  for (std::size_t rank = 0; rank < ended.size(); ++rank)
    if (ended[rank].starts_with("error: ")) ranks += concat(rank, ' ');
  return ranks;
}

}  // namespace

TEST_CASE("bootstrap_survivors: when rank 0 dies one rank throws the cause, the others abort") {
  for (const int ranks : {2, 3, 5, 8}) {
    const auto ended = ends(ranks, {0}, 30s);
    CHECK(ended[0] == "died");
    CHECK(reporters(ended) == "1 ");
    for (std::size_t rank = 1; rank < ended.size(); ++rank) {
      CHECK(ended[rank].starts_with(rank == 1 ? "error: " : "aborted: "));
      CHECK(contains(ended[rank], "rank 0: its process ended without leaving the run"));
    }
  }
}

TEST_CASE("bootstrap_survivors: where several ranks die the lowest that lives throws the cause") {
  CHECK(reporters(ends(5, {0, 1}, 30s)) == "2 ");
  CHECK(reporters(ends(5, {0, 1, 2, 3}, 30s)) == "4 ");
  CHECK(reporters(ends(5, {0, 3}, 1s)) == "1 ");  // which waits for rank 3
}

TEST_CASE(
    "bootstrap_survivors: without the secret no process gets an answer, or counts as a rank") {
  const int server_port = listener(0, given_port::host()).port();
  std::vector<std::thread> team;
  std::barrier all_run(3);
  std::chrono::steady_clock::duration waited{};
  std::optional<frame> answer;
  for (int rank = 0; rank < 3; ++rank)
    team.emplace_back([&, rank] {
      std::optional<world> w(std::in_place, given_port{{rank, 3, "the test"}, server_port}, 1s);
      all_run.arrive_and_wait();
      if (rank != 1) return;
      w->wait();
      std::thread stranger([&] {
        tcp_connection c = tcp_connection::connect("127.0.0.1", w->port());
        c.send({frame::hello, 2, to_bytes(hello{2, 3}) + "another secret"});
        while (!c.is_closed() && !answer) answer = c.try_receive();
      });
      const auto begin = std::chrono::steady_clock::now();
      w->leave();
      waited = std::chrono::steady_clock::now() - begin;
      w.reset();
      stranger.join();
    });
  for (std::thread& t : team) t.join();
  CHECK_FALSE(answer);
  CHECK(waited >= 1s);  // for rank 2, until the grace period is over
}
