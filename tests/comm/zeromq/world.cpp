// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes: training over them, and one that is killed.
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/compressed.hpp>
#include <cordee/comm/gossip.hpp>
#include <cordee/comm/halving_doubling.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/comm/topologies/fixed.hpp>
#include <cordee/comm/zeromq.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/any_exact.hpp"
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

TEST_CASE("zeromq: a process that is killed ends the others, with its rank") {
  const auto ended = fork_ranks(3, [](int rank) {
    zeromq::launch(
        [&](zeromq comm) {
          quadratic<fp32> model;
          trainer run{model, sgd{}, constant{.learning_rate = 0.02}, ring{comm}};
          const std::array batches{one_each(comm.size())};
          for (int k = 0; k < 6; ++k) {
            if (k == 3 && rank == 2) std::raise(SIGKILL);
            run.step(batches, k);
          }
        },
        {.deadline = 20s});
    return std::string("no failure");
  });
  CHECK(ended[2] == "signal 9");
  CHECK(contains(ended[0], "error: rank 2: its process ended without leaving the run"));
  CHECK(contains(ended[1], "rank 1 ended with the run: rank 2: its process ended"));
}

TEST_CASE("zeromq: without its peers a rank gives up at the deadline") {
  const auto ended = fork_ranks(1, [](int) {
    ::setenv("WORLD_SIZE", "2", 1);
    zeromq::launch([](zeromq) {}, {.deadline = 500ms});
    return std::string();
  });
  CHECK(contains(ended[0], "waited 500 ms for rank 1 to connect to port"));
}
