// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a run connect, and their errors when they cannot.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/nccl/world.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/given_port.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/reserved_port.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace std::chrono_literals;
using detail::comm::nccl_world, detail::comm::bootstrap_client, detail::comm::tcp_connection;
using support::error_message, support::contains, support::given_port;

namespace {

// A given rank with a given file.
struct given_file : rendezvous_file {
  rank_assignment rank;
  [[nodiscard]] rank_assignment assignment() const { return rank; }
};

// The error messages of these ranks, which connect at the same time.
template <class Rendezvous>
std::vector<std::string> error_messages(const std::vector<Rendezvous>& ranks,
                                        std::chrono::milliseconds deadline) {
  std::vector<std::string> messages(ranks.size());
  std::vector<std::thread> team;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    team.emplace_back([&, i] {
      messages[i] = error_message([&] { nccl_world(ranks[i], deadline, -1).leave(); });
    });
  for (std::thread& t : team) t.join();
  return messages;
}

}  // namespace

TEST_CASE(
    "nccl_world: ranks connect by a given address, and by a file, also over an earlier run's "
    "file") {
  const support::reserved_port reserved;
  const int port = reserved.port;
  for (const std::string& message :
       error_messages<given_port>({{{0, 3}, port}, {{1, 3}, port}, {{2, 3}, port}}, 20s))
    CHECK(message == "");

  const support::folder temporary;
  const std::string path = temporary.file("meet");
  const support::reserved_port earlier;
  rendezvous_file{path}.publish({earlier.port, "99", {"127.0.0.1"}});
  for (const std::string& message :
       error_messages<given_file>({{{path}, {0, 2}}, {{path}, {1, 2}}}, 20s))
    CHECK(message == "");
}

TEST_CASE("nccl_world: different numbers of ranks are an error on all of them, with both numbers") {
  const support::reserved_port reserved;
  const int port = reserved.port;
  for (const std::string& message :
       error_messages<given_port>({{{0, 2}, port}, {{1, 3}, port}}, 3s)) {
    CHECK(contains(message, "it is started as rank 1 of 3"));
    CHECK(contains(message, "but rank 0 as rank 0 of 2"));
  }
}

TEST_CASE("nccl_world: a missing rank is named, and so is a missing rank 0") {
  const support::reserved_port reserved;
  const int port = reserved.port;
  CHECK(contains(error_messages<given_port>({{{0, 2}, port}}, 500ms).front(),
                 "waited 500 ms for rank 1 to connect to port"));
  CHECK(contains(error_messages<given_port>({{{1, 2}, port}}, 500ms).front(),
                 "rank 1 waited 500 ms for rank 0 to answer at port "));
}

TEST_CASE("nccl_world: a rank that dies while the others start is named") {
  const support::reserved_port reserved;
  const int port = reserved.port;
  std::thread dying([&] {
    tcp_connection connection;
    while (connection.is_closed())
      connection = bootstrap_client::join({"127.0.0.1"}, port, {1, 2}, given_port::secret());
  });
  const auto messages = error_messages<given_port>({{{0, 2}, port}}, 20s);
  dying.join();
  CHECK(contains(messages.front(), "rank 1: its process ended without leaving the run"));
}

TEST_CASE("nccl_world: when rank 0 dies in a run one rank throws the cause, the others abort") {
  constexpr int ranks = 4;
  const support::reserved_port reserved;
  const int port = reserved.port;
  std::array<std::string, ranks> ended;
  std::barrier all_run(ranks);
  std::vector<std::thread> team;
  for (int rank = 0; rank < ranks; ++rank)
    team.emplace_back([&, rank] {
      try {
        nccl_world world(given_port{{rank, ranks}, port}, 20s, -1);
        all_run.arrive_and_wait();
        if (rank == 0) return;
        run_rank(world, [&] { (void)world.context(request_context); });  // collective
      } catch (const aborted&) {
        ended[static_cast<std::size_t>(rank)] = "aborted";
      } catch (const std::exception& e) {
        ended[static_cast<std::size_t>(rank)] = e.what();
      }
    });
  for (std::thread& t : team) t.join();
  CHECK(contains(ended[1], "rank 0: its process ended without leaving the run"));
  for (int rank = 2; rank < ranks; ++rank)
    CHECK(ended[static_cast<std::size_t>(rank)] == "aborted");
}

TEST_CASE("nccl_world: a rank with another secret is not admitted, and is told what may be wrong") {
  struct other_secret : given_port {
    std::string own;
    [[nodiscard]] std::string secret() const { return own; }
    [[nodiscard]] std::optional<bootstrap_address> find() const {
      return bootstrap_address{server_port, own, {"127.0.0.1"}};
    }
  };
  const support::reserved_port reserved;
  const int port = reserved.port;
  const auto messages =
      error_messages<other_secret>({{{{0, 2}, port}, "a"}, {{{1, 2}, port}, "b"}}, 2s);
  CHECK(contains(messages[0], "waited 2000 ms for rank 1 to connect to port"));
  CHECK(contains(messages[0], "; it refused 127.0.0.1 as rank 1: its secret is not rank 0's"));
  CHECK(contains(messages[1],
                 "refuses rank 1: its secret is not rank 0's: start every rank with "
                 "the same CORDEE_SECRET_KEY"));
  // Any process may end a run without a secret, so that it need not wait for the deadline.
  for (const std::string& message :
       error_messages<other_secret>({{{{0, 2}, port}, ""}, {{{1, 2}, port}, "b"}}, 60s))
    CHECK(contains(message, "rank 1: it has a secret, but rank 0 has none"));
}

TEST_CASE("nccl_world: a port in use is an error with the remedy") {
  const detail::comm::listener used(0);
  CHECK(contains(error_messages<given_port>({{{0, 2}, used.port()}}, 1s).front(),
                 "in use; set another MASTER_PORT"));
}

TEST_CASE("nccl_world: each rank has its share of the node's cores as workers") {
  const support::reserved_port reserved;
  const int port = reserved.port;
  std::atomic<int> workers{0};
  std::vector<std::thread> team;
  for (int rank = 0; rank < 2; ++rank)
    team.emplace_back([&, rank] {
      nccl_world world(given_port{{rank, 2}, port}, 20s, -1);
      workers += world.workers();
      world.leave();
    });
  for (std::thread& t : team) t.join();
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  CHECK(workers == 2 * std::max(1, CPU_COUNT(&cores) / 2));
}

TEST_CASE("share_pool: peers may access what is allocated before and after, and others may not") {
  auto& pools = nccl_double::pools::instance();
  cudaSetDevice(0);
  const detail::comm::stream_set streams;
  void *before = nullptr, *after = nullptr;
  cudaMallocAsync(&before, 8, streams.staging);
  pools.unshare();
  CHECK(!pools.accessible(before, 2));
  detail::device::share_pool(0, std::array{2, 3});
  cudaMallocAsync(&after, 8, streams.staging);
  for (void* const p : {before, after}) {
    CHECK(pools.accessible(p, 2));
    CHECK(pools.accessible(p, 3));
    CHECK(!pools.accessible(p, 4));
    cudaFreeAsync(p, streams.staging);
  }
}
