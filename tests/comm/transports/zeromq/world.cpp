// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes: training over them, and one that is killed, silent or cut off.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/topologies/fixed.hpp>
#include <cordee/comm/transports/zeromq.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/any_exact.hpp"
#include "tests/support/custom_quadratic.hpp"
#include "tests/support/ipv6.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/zeromq_ranks.hpp"

using namespace cordee;
using namespace support;
using namespace std::chrono_literals;

namespace {

// The bits of the weights of a quadratic model after a few steps, with different data on each rank.
template <class O, class Reducer>
std::string stepped(const O& optimizer, const Reducer& reducer) {
  quadratic<fp32> model;
  model.shift = 0.1 * reducer.comm.rank();
  trainer run{model, optimizer, constant{.learning_rate = 0.02}, reducer, {.bucket_bytes = 512}};
  const std::array batches{one_each(reducer.comm.size())};
  for (int k = 0; k < 10; ++k) run.step(batches, k);
  const auto w = run.weights();
  return {reinterpret_cast<const char*>(w.data), w.size * sizeof(float)};
}

// The same of a function of the user's over processes, and of the model of types over threads.
template <class O, class Reducer>
std::string own_stepped(const O& optimizer, const Reducer& reducer) {
  if constexpr (std::is_same_v<typename Reducer::communicator_type, zeromq>) {
    auto model = quadratic_model_of<fp32>();
    trainer run{model, optimizer, constant{.learning_rate = 0.02}, reducer, {.bucket_bytes = 512}};
    for (int k = 0; k < 10; ++k) run.step(shift(0.1 * reducer.comm.rank()), 1, k);
    const auto w = run.weights();
    return {reinterpret_cast<const char*>(w.data), w.size * sizeof(float)};
  } else {
    return stepped(optimizer, reducer);
  }
}

// Whether train(comm) returns the same bits over processes as over threads.
template <class Train>
bool same_over_threads(int ranks, const Train& train) {
  const std::vector<std::string> over_processes = fork_ranks(ranks, [&](int) {
    std::string result;
    zeromq::launch([&](zeromq comm) { result = train(comm); }, {.deadline = 30s});
    return result;
  });
  std::vector<std::string> over_threads(static_cast<std::size_t>(ranks));
  threads::launch(
      ranks,
      [&](threads comm) { over_threads[static_cast<std::size_t>(comm.rank())] = train(comm); },
      long_deadline);
  for (const std::string& text : over_processes)
    if (text.starts_with("error")) MESSAGE(text);
  return !over_threads.front().empty() && over_processes == over_threads;
}

// Calls its fault before an exchange: a rank is lost in the middle of what it does.
struct failing_comm {
  static constexpr bool blocks_host = zeromq::blocks_host;

  zeromq comm;
  std::shared_ptr<std::atomic<int>> left;  // exchanges up to that one
  void (*fault)();

  [[nodiscard]] int rank() const { return comm.rank(); }
  [[nodiscard]] int size() const { return comm.size(); }
  [[nodiscard]] failing_comm duplicate(int k) const { return {comm.duplicate(k), left, fault}; }
  [[nodiscard]] int probe_any(std::span<const int> expected) const {
    return comm.probe_any(expected);
  }
  void abort(const char* why) const { comm.abort(why); }
  template <Device D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    if (--*left == 0) fault();
    comm.exchange(out, in, s);
  }
};

// Closes the connections on which this process sends data; the control connection stays.
void close_data_connections() {
  const int control = std::atoi(std::getenv("MASTER_PORT"));
  const auto port_by = [](const auto& call, int descriptor) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    const bool found = call(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    return found && address.sin_family == AF_INET ? ntohs(address.sin_port) : 0;
  };
  std::array<std::pair<int, int>, 256> ports;  // of this end and of the other one
  int listening = 0;
  for (int d = 0; d < 256; ++d) {
    ports[static_cast<std::size_t>(d)] = {port_by(::getsockname, d), port_by(::getpeername, d)};
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(d, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0)
      listening = port_by(::getsockname, d);
  }
  for (int d = 0; d < 256; ++d) {
    const auto [own, other] = ports[static_cast<std::size_t>(d)];
    if (other != 0 && other != control && own != listening) ::shutdown(d, SHUT_RDWR);
  }
}

// Means of 1,000 numbers by the reducer that make(comm) returns: the fault is on the ranks
// `failing` before their exchange of that number, or when they learn of another one's.
template <class Make>
std::vector<std::string> means_with_fault(const std::vector<int>& failing, int exchange,
                                          void (*fault)(), std::chrono::milliseconds deadline,
                                          const Make& make, int ranks = 3) {
  return fork_ranks(ranks, [&](int rank) {
    const bool fails = std::ranges::find(failing, rank) != failing.end();
    zeromq::launch(
        [&](zeromq comm) {
          const auto left = std::make_shared<std::atomic<int>>(fails ? exchange : -1);
          const auto reducer = make(failing_comm{comm, left, fault});
          std::vector<float> x(1000, 1), y(1000);
          std::vector<std::byte> scratch(reducer.template scratch<float>(x.size()));
          using reducer_type = std::remove_const_t<decltype(reducer)>;
          bucket_view<float, cpu, reducer_type::slots> m{
              nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}};
          if constexpr (reducer_type::slots == 1) {
            m.slots[0] = {y.data(), y.size()};
            reducer.initialize(m, cpu::stream{});
          }
          try {
            for (int k = 0; k < 100; ++k) reducer.mix(m, step_info{}, cpu::stream{});
          } catch (const error&) {
            if (*left > 0) fault();
            throw;
          }
        },
        {.deadline = deadline});
    return std::string("no failure");
  });
}

// Whether every rank but the lost one has ended with an error that has the text, and the lost
// one's address.
bool survivors_report(const std::vector<std::string>& ended, int lost, const std::string& text) {
  bool all = true;
  for (int rank = 0; rank < static_cast<int>(ended.size()); ++rank) {
    const std::string& message = ended[static_cast<std::size_t>(rank)];
    const bool named =
        (message.starts_with("error: ") || message.starts_with("aborted: ")) &&
        contains(message, text.c_str()) &&
        (lost < 0 || contains(message, concat("rank ", lost, " at 127.0.0.1:").c_str()));
    if (rank != lost && !named) MESSAGE(concat("rank ", rank, ": ", message));
    all = all && (rank == lost || named);
  }
  return all;
}

// "0 2 ": the ranks that have thrown error itself, which programs print.
std::string reporters(const std::vector<std::string>& ended) {
  std::string ranks;
  for (std::size_t rank = 0; rank < ended.size(); ++rank)
    if (ended[rank].starts_with("error: ")) ranks += concat(rank, ' ');
  return ranks;
}

const auto by_ring = [](failing_comm comm) { return ring{comm}; };
const auto by_server = [](failing_comm comm) { return server{comm}; };
const auto by_asynchronous_server = [](failing_comm comm) {
  return server{comm, asynchronous{.staleness_bound = 2}};
};

}  // namespace

TEST_CASE(
    "zeromq: over processes a ring, a server, a lossy ring and gossip give the bits of threads") {
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    CHECK(same_over_threads(ranks,
                            [](auto comm) { return stepped(sgd{.momentum = 0.9}, ring{comm}); }));
    CHECK(same_over_threads(ranks, [](auto comm) { return stepped(sgd{}, server{comm}); }));
    CHECK(same_over_threads(ranks, [](auto comm) {
      return stepped(sgd{}, compressed{ring{comm}, int8{}});
    }));
    CHECK(same_over_threads(ranks, [](auto comm) {
      return stepped(decentlam{}, gossip{comm, topologies::ring{}});
    }));
  }
}

TEST_CASE("zeromq: a model of the user's own gives the bits of a model of types over threads") {
  CHECK(same_over_threads(3,
                          [](auto comm) { return own_stepped(sgd{.momentum = 0.9}, ring{comm}); }));
  CHECK(same_over_threads(3, [](auto comm) {
    return own_stepped(decentlam{}, gossip{comm, topologies::ring{}});
  }));
}

TEST_CASE("zeromq: an asynchronous server trains over processes") {
  const auto ended = fork_ranks(3, [&](int) {
    double distance = 1;
    zeromq::launch(
        [&](zeromq comm) {
          quadratic<fp32> model;
          trainer run{model, local_steps{sgd{}, 1}, constant{.learning_rate = 0.02},
                      server{comm, asynchronous{.staleness_bound = 2}}};
          const std::array batches{one_each(comm.size())};
          for (int k = 0; k < 200; ++k) run.step(batches, k);
          distance = std::abs(run.weights().data[0] - t4_center[0][0]);
        },
        {.deadline = 30s});
    return distance < 0.01 ? std::string("arrived") : concat(distance, " away");
  });
  CHECK(ended == std::vector<std::string>(3, "arrived"));
}

TEST_CASE("zeromq: the laws of reducers") {
  CHECK(reducer_violations<zeromq>([](zeromq comm) { return ring{comm}; }, {.ranks = {1, 2, 3, 5}},
                                   launch_zeromq) == "");
  CHECK(reducer_violations<zeromq>([](zeromq comm) { return halving_doubling{comm}; },
                                   {.ranks = {2, 3, 4}}, launch_zeromq) == "");
}

TEST_CASE("zeromq: every survivor names a rank that is killed in the middle of a mean") {
  const auto killed = [](int rank, int exchange, const auto& make, int ranks = 3) {
    const auto ended = means_with_fault(
        {rank}, exchange, [] { std::raise(SIGKILL); }, 30s, make, ranks);
    CHECK(ended[static_cast<std::size_t>(rank)] == "signal 9");
    CHECK(reporters(ended) == (rank == 0 ? "1 " : "0 "));  // the cause is printed once
    return survivors_report(ended, rank, "its process ended without leaving the run");
  };
  CHECK(killed(2, 10, by_ring));  // of four exchanges a mean
  CHECK(killed(0, 10, by_ring));
  for (const int ranks : {2, 5}) CHECK(killed(0, 10, by_ring, ranks));
  CHECK(killed(1, 5, by_server));  // a push
  CHECK(killed(1, 6, by_server));  // a pull
  CHECK(killed(0, 6, by_server));
  CHECK(killed(2, 9, by_asynchronous_server));
  CHECK(killed(0, 9, by_asynchronous_server));
}

TEST_CASE("zeromq: where several ranks are killed the lowest that lives throws the cause") {
  const auto ended = means_with_fault(
      {0, 1}, 10, [] { std::raise(SIGKILL); }, 30s, by_ring, 5);
  CHECK(ended[0] == "signal 9");
  CHECK(ended[1] == "signal 9");
  CHECK(reporters(ended) == "2 ");
  for (std::size_t rank = 2; rank < 5; ++rank)
    CHECK(contains(ended[rank], "its process ended without leaving the run"));
}

TEST_CASE("zeromq: every survivor names a rank that is silent in the middle of a mean") {
  const auto silent = [](int rank, int exchange, const auto& make) {
    const auto ended = means_with_fault(
        {rank}, exchange, [] { std::raise(SIGSTOP); }, 2s, make);
    CHECK(ended[static_cast<std::size_t>(rank)] == "stopped");
    return survivors_report(ended, rank, rank == 0 ? " (does not answer, " : "suspected: ");
  };
  CHECK(silent(2, 10, by_ring));
  CHECK(silent(1, 5, by_server));
  CHECK(silent(0, 6, by_server));
  CHECK(silent(2, 9, by_asynchronous_server));
}

TEST_CASE("zeromq: every rank names one whose connections close while its process goes on") {
  const auto closed = [](int exchange, const auto& make) {
    const auto ended = means_with_fault({2}, exchange, close_data_connections, 30s, make);
    CHECK(reporters(ended) == "0 ");
    return survivors_report(ended, -1, "the connection of rank 2 at 127.0.0.1:");
  };
  CHECK(closed(10, by_ring));
  CHECK(closed(5, by_server));
  CHECK(closed(9, by_asynchronous_server));
}

TEST_CASE("zeromq: ranks meet over IPv6, and exchange over the address at which they listen") {
  if (!support::has_ipv6()) return;
  for (const std::string listen : {"127.0.0.1", "::1", "*"}) {
    const auto ended = fork_ranks(3, [&](int) {
      ::setenv("MASTER_ADDR", "[::1]", 1);
      std::array sum{1.0};
      zeromq::launch([&](zeromq comm) { allreduce_host(comm, sum, reduce_op::sum); },
                     {.deadline = 30s, .listen = listen});
      return concat(sum[0]);
    });
    CHECK(ended == std::vector<std::string>(3, "3"));
  }
}

TEST_CASE("zeromq: ranks that listen at all addresses may have a rank 0 on another network") {
  const auto ended = fork_ranks(1, [](int) {
    ::setenv("MASTER_ADDR", "192.0.2.1", 1);  // translated to one of this host
    zeromq::launch([](zeromq) {}, {.deadline = 30s, .listen = "*"});
    return std::string("ran");
  });
  CHECK(ended[0] == "ran");
}

TEST_CASE("zeromq: a name that does not resolve is an error at once") {
  const auto ended = fork_ranks(2, [](int) {
    ::setenv("MASTER_ADDR", "no.such.name.invalid", 1);
    zeromq::launch([](zeromq) {}, {.deadline = 60s});
    return std::string();
  });
  for (const std::string& text : ended)
    CHECK(contains(text, "rank 0 is at no.such.name.invalid, which does not resolve: "));
}

TEST_CASE("zeromq: without its peers a rank gives up at the deadline") {
  const auto ended = fork_ranks(1, [](int) {
    ::setenv("WORLD_SIZE", "2", 1);
    zeromq::launch([](zeromq) {}, {.deadline = 500ms});
    return std::string();
  });
  CHECK(contains(ended[0], "waited 500 ms for rank 1 to connect to port"));
}
