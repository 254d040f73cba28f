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

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/transports/bootstrap/survivors.hpp>

#include "tests/support/given_port.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/reserved_port.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using namespace detail::comm;
using support::contains, support::given_port;

namespace {

/// What nccl_world is without NCCL.
class world {
 public:
  world(given_port rendezvous, std::chrono::milliseconds deadline)
      : session_(rendezvous, rendezvous.host(), deadline),
        survivors_(std::in_place, session_, rendezvous.host()) {}

  [[nodiscard]] int rank() const { return session_.self.rank; }
  [[nodiscard]] const failure& first_failure() { return session_.control().first_failure; }
  [[nodiscard]] bool has_left(int rank) {
    return session_.control().has_left(rank) || survivors_->has_left(rank);
  }
  void fail(const std::string& cause) { session_.control().fail(cause); }
  void leave() {
    session_.leave([] {});
    if (session_.control().has_lost_server()) survivors_->meet(grace_period(session_.deadline));
  }
  [[nodiscard]] int port() const { return survivors_->port(); }
  void stop_listening() { survivors_.reset(); }
  /// Returns when the run has failed.
  void wait() {
    while (!first_failure().happened()) {
      session_.control().poll();
      std::this_thread::sleep_for(1ms);
    }
  }

 private:
  bootstrap_session session_;
  std::optional<bootstrap_survivors> survivors_;
};

/// A port of the loopback where connections are neither accepted nor refused, as at a host that is
/// gone: once the queue of those not accepted is full, the system drops what arrives.
class unreachable_port {
 public:
  explicit unreachable_port(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_port = htons(static_cast<std::uint16_t>(port));
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool listens = bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0 &&
                         listen(socket_, 0) == 0;
    for (int k = 0; listens && k < 4; ++k) {
      waiting_.push_back(tcp_connection::begin_connect("127.0.0.1", port));
      std::this_thread::sleep_for(5ms);
      full_ = full_ || (!waiting_.back().has_connected() && !waiting_.back().is_closed());
    }
  }
  unreachable_port(const unreachable_port&) = delete;
  unreachable_port& operator=(const unreachable_port&) = delete;
  ~unreachable_port() { ::close(socket_); }

  [[nodiscard]] bool is_full() const { return full_; }

 private:
  int socket_;
  bool full_ = false;
  std::vector<tcp_connection> waiting_;
};

struct end_of_rank {
  std::string text;  // "died"; "error: " or "aborted: " and what is thrown
  std::chrono::steady_clock::time_point time{};
};
struct run_options {
  std::chrono::milliseconds deadline;
  int unreachable = 0;  // those that die from rank 1 up to this one cannot be reached then
  int late = -1;        // this rank leaves later than the others, by
  std::chrono::milliseconds delay{};
};

/// How the ranks end of which these die.
std::vector<end_of_rank> ends(int ranks, const std::vector<int>& dying, run_options o) {
  const support::reserved_port reserved;
  const int port = reserved.port;
  std::vector<end_of_rank> ended(static_cast<std::size_t>(ranks));
  std::vector<std::optional<unreachable_port>> unreachable(ended.size());
  std::barrier all_run(ranks);
  std::vector<std::thread> team;
  for (int rank = 0; rank < ranks; ++rank)
    team.emplace_back([&, rank] {
      const auto k = static_cast<std::size_t>(rank);
      std::string text;
      try {
        world w(given_port{{rank, ranks, "the test"}, port}, o.deadline);
        if (rank > 0 && rank <= o.unreachable) {
          const int own_port = w.port();
          w.stop_listening();
          unreachable[k].emplace(own_port);
        }
        all_run.arrive_and_wait();
        if (std::ranges::count(dying, rank) > 0) {
          ended[k].text = "died";
          return;
        }
        run_rank(w, [&] {
          w.wait();
          if (rank == o.late) std::this_thread::sleep_for(o.delay);
          throw error("aborted");
        });
      } catch (const aborted& e) {
        text = concat("aborted: ", e.what());
      } catch (const std::exception& e) {
        text = concat("error: ", e.what());
      }
      ended[k] = {text, std::chrono::steady_clock::now()};
    });
  for (std::thread& t : team) t.join();
  for (const auto& u : unreachable) CHECK((!u || u->is_full()));
  return ended;
}
/// "1 3 ": the ranks that throw error, at which their programs print the cause.
std::string reporters(const std::vector<end_of_rank>& ended) {
  std::string ranks;
  for (std::size_t rank = 0; rank < ended.size(); ++rank)
    if (ended[rank].text.starts_with("error: ")) ranks += concat(rank, ' ');
  return ranks;
}
/// "1 ": the ranks of those that live that end first, so that a launcher which then ends the others
/// lets them print.
std::string first_to_end(const std::vector<end_of_rank>& ended) {
  std::size_t first = ended.size();
  for (std::size_t rank = 0; rank < ended.size(); ++rank)
    if (ended[rank].text != "died" &&
        (first == ended.size() || ended[rank].time < ended[first].time))
      first = rank;
  return concat(first, ' ');
}

}  // namespace

TEST_CASE("bootstrap_survivors: when rank 0 dies one rank throws the cause, the others abort") {
  for (const int ranks : {2, 3, 5, 8}) {
    const auto ended = ends(ranks, {0}, {30s});
    CHECK(ended[0].text == "died");
    CHECK(reporters(ended) == "1 ");
    CHECK(first_to_end(ended) == "1 ");
    for (std::size_t rank = 1; rank < ended.size(); ++rank) {
      CHECK(ended[rank].text.starts_with(rank == 1 ? "error: " : "aborted: "));
      CHECK(contains(ended[rank].text, "rank 0: its process ended without leaving the run"));
    }
  }
}

TEST_CASE("bootstrap_survivors: where several ranks die the lowest that lives throws the cause") {
  CHECK(reporters(ends(5, {0, 1}, {30s})) == "2 ");
  CHECK(reporters(ends(5, {0, 1, 2, 3}, {30s})) == "4 ");
}

TEST_CASE("bootstrap_survivors: the rank that throws the cause ends first, however long it waits") {
  const auto waits = ends(5, {0, 3}, {1s});  // for rank 3, until the grace period is over
  CHECK(reporters(waits) == "1 ");
  CHECK(first_to_end(waits) == "1 ");
  const auto is_late = ends(5, {0, 3}, {1s, 0, 1, 500ms});
  CHECK(reporters(is_late) == "1 ");
  CHECK(first_to_end(is_late) == "1 ");
}

TEST_CASE("bootstrap_survivors: ranks that cannot be reached delay the others by a limit in all") {
  for (const int unreachable : {1, 2, 7}) {
    std::vector<int> dying;
    for (int rank = 0; rank <= unreachable; ++rank) dying.push_back(rank);
    const std::string lowest = concat(unreachable + 1, ' ');
    const auto begin = std::chrono::steady_clock::now();
    const auto ended = ends(unreachable + 4, dying, {4s, unreachable});
    const auto took = std::chrono::steady_clock::now() - begin;
    CHECK(reporters(ended) == lowest);
    CHECK(first_to_end(ended) == lowest);
    CHECK(took >= 1s);  // a quarter of the grace period, which one of them alone takes
    CHECK(took < 4s);
  }
}

TEST_CASE(
    "bootstrap_survivors: without the secret no process gets an answer, or counts as a rank") {
  const support::reserved_port reserved;
  const int server_port = reserved.port;
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
