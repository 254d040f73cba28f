// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/subgroup.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("an exception on one rank ends the run with its message on every rank") {
  for (const int ranks : {2, 3, 5}) {
    std::vector<std::string> messages(static_cast<std::size_t>(ranks));
    const std::string first = error_message([&] {
      threads::launch(
          ranks,
          [&](threads comm) {
            struct thrower : quadratic<fp64> {
              int rank = 0;
              void forward(const packed_parameters& w, span_on<double, cpu> p, const batch<cpu>& b,
                           phase ph, cpu::stream s) {
                if (rank == 1 && step == 2) throw error("the sensor fell off");
                quadratic<fp64>::forward(w, p, b, ph, s);
              }
            };
            thrower model;
            model.rank = comm.rank();
            trainer run{model, sgd{}, slow_start, ring{comm}};
            try {
              for (int k = 0; k < 9; ++k) run.step(std::array{one_each(ranks)}, k);
            } catch (const std::exception& e) {
              messages[static_cast<std::size_t>(comm.rank())] = e.what();
              throw;
            }
          },
          long_deadline);
    });
    CHECK(first == "rank 1: the sensor fell off");
    for (const std::string& message : messages) CHECK(contains(message, "the sensor fell off"));
  }
}

TEST_CASE("an option that one rank's trainer refuses ends the run on the others at once") {
  std::string message;
  const std::string first = error_message([&] {
    threads::launch(
        2,
        [&](threads comm) {
          quadratic<fp64> model;
          const int steps = comm.rank() == 1 ? 0 : 10;
          try {
            trainer run{model, sgd{}, slow_start, ring{comm}, {.max_nonfinite_steps = steps}};
          } catch (const std::exception& e) {  // and goes on, so that its thread does not end
            if (comm.rank() == 0) message = e.what();
          }
        },
        {.deadline = std::chrono::seconds(2)});
  });
  CHECK(contains(first, "rank 1: trainer: max_nonfinite_steps"));
  CHECK(contains(message, "rank 0 aborted: rank 1: trainer: max_nonfinite_steps"));
}

namespace {

/// The rank of three whose line "rank R waited N ms
/// …" or "rank R had waited N ms …" has the least N.
int shortest_wait(const std::string& report) {
  int shortest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int rank = 0; rank < 3; ++rank) {
    const std::size_t line = report.find(concat("\n  rank ", rank, " "));
    REQUIRE(line != report.npos);
    const std::size_t at = report.find("waited ", line + 1);
    REQUIRE(at < report.find('\n', line + 1));
    const double waited = std::strtod(report.c_str() + at + 7, nullptr);
    if (waited < least) shortest = rank;
    least = std::min(least, waited);
  }
  return shortest;
}

}  // namespace

TEST_CASE("a stuck rank ends the run at the deadline, and is named on every other rank") {
  for (const bool comes_back : {false, true}) {
    std::vector<std::string> messages(3);
    stuck_rank stuck;
    const std::string first = error_message([&] {
      threads::launch(3,
                      [&](threads comm) {
                        quadratic<fp64> model;
                        trainer run{model, sgd{}, slow_start, ring{comm}};
                        try {
                          stuck.run_peer([&] {
                            for (int k = 0; k < 9; ++k) {
                              if (comm.rank() == 2 && k == 3) stuck.block();
                              if (comm.rank() == 2 && k == 3 && !comes_back) return;
                              run.step(std::array{one_each(3)}, k);
                            }
                          });
                        } catch (const std::exception& e) {
                          messages[static_cast<std::size_t>(comm.rank())] = e.what();
                          throw;
                        }
                      },
                      {.deadline = std::chrono::milliseconds(2000)});
    });
    CHECK(contains(first, "for rank 2 to"));
    for (std::size_t rank = 0; rank < messages.size(); ++rank)
      CHECK(contains(messages[rank], "for rank 2 to") == (rank < 2 || comes_back));
    // The report: for each rank the exchange that it waits in and the last one it has finished, by
    // step and parameters; for a rank without a report, the last exchange it took part in.
    CHECK(contains(first,
                   "(step 3, round 3, bucket 0 (W1 to b2, 2048 bytes); last finished: step 2, "
                   "round 2, bucket 0"));
    CHECK(contains(first, comes_back ? "\n  rank 2 had waited "
                                     : "\n  rank 2 reported no wait; took part up to step 2, "
                                       "round 2, bucket 0 (W1 to b2, 2048 bytes), which rank "));
    // Rank 2 comes back when the others have waited for long, unless these were not scheduled.
    CHECK(contains(
        first,
        comes_back
            ? concat("\n  suspected: rank ", shortest_wait(first), " (shortest wait)").c_str()
            : "\n  suspected: rank 2 (reported no wait)"));
    CHECK(contains(
        first, concat("\n  rank ", contains(first, "rank 0: rank 0 waited") ? 1 : 0, " had waited ")
                   .c_str()));
  }
}

TEST_CASE("a rank that is absent from a collective operation is named, with the steps taken") {
  stuck_rank stuck;
  const std::string message = error_message([&] {
    threads::launch(2,
                    [&](threads comm) {
                      quadratic<fp64> model;
                      trainer run{model, sgd{}, slow_start, ring{comm}};
                      run.step(std::array{one_each(2)}, 0);
                      if (comm.rank() == 1) return stuck.block();
                      stuck.run_peer([&] { run.consensus_distance(); });
                    },
                    {.deadline = std::chrono::milliseconds(2000)});
  });
  CHECK(
      contains(message,
               "on context 1: it is stuck, or slower than threads::options{.deadline} (trainer "
               "after 1 steps; last finished: step 0, round 0, bucket 0 (W1 to b2, 2048 bytes))"));
  CHECK(contains(message,
                 "\n  rank 1 reported no wait; took part up to step 0, round 0, bucket 0 (W1 to "
                 "b2, 2048 bytes), which rank 0 has finished"));
}

// The message of a run of four ranks of which rank 2 is stuck in its fourth step.
template <class Optimizer, class Make>
std::string message_with_stuck_rank(const Optimizer& optimizer, const Make& make) {
  stuck_rank stuck;
  return error_message([&] {
    threads::launch(4,
                    [&](threads comm) {
                      quadratic<fp64> model;
                      trainer run{model, optimizer, constant{0.01}, make(comm)};
                      stuck.run_peer([&] {
                        for (int k = 0; k < 9; ++k) {
                          if (comm.rank() == 2 && k == 3) {
                            stuck.block();
                            throw error("too late");  // without a farewell to a server
                          }
                          run.step(std::array{one_each(4)}, k);
                        }
                      });
                    },
                    {.deadline = std::chrono::milliseconds(2000)});
  });
}

TEST_CASE(
    "a stuck rank's last exchange is reported by its neighbours, its last push by its server") {
  const std::string mixing =
      message_with_stuck_rank(decentlam{}, [](threads comm) { return gossip{comm}; });
  CHECK(contains(mixing,
                 "\n  rank 2 reported no wait; took part up to step 2, round 2, bucket 0 (W1 to "
                 "b2, 2048 bytes), which rank "));
  CHECK_FALSE(contains(mixing, "which rank 0 has finished"));  // which does not receive from rank 2
  const std::string loose = message_with_stuck_rank(local_steps{sgd{}, 1}, [](threads comm) {
    return server{comm, asynchronous{.staleness_bound = 0}};
  });
  CHECK(contains(loose,
                 "\n  rank 2 reported no wait; took part up to its push 3, which rank 0 has "
                 "finished"));
}

TEST_CASE("a report names ranks of a subgroup by their number in the run") {
  stuck_rank stuck;
  const std::string message = error_message([&] {
    threads::launch(
        4,
        [&](threads comm) {
          const subgroup ours{comm, comm.rank() % 2 == 0 ? std::vector{2, 0} : std::vector{3, 1}};
          quadratic<fp64> model;
          trainer run{model, sgd{}, slow_start, ring{ours}};
          stuck.run_peer([&] {
            for (int k = 0; k < 3; ++k) {
              if (comm.rank() == 3 && k == 1) return stuck.block();
              run.step(std::array{one_each(2)}, k);
            }
          });
        },
        {.deadline = std::chrono::milliseconds(2000)});
  });
  CHECK(contains(message,
                 "\n  rank 3 reported no wait; took part up to step 0, round 0, bucket 0 (W1 to "
                 "b2, 2048 bytes), which rank 1 has finished"));
}

TEST_CASE("a rank that leaves early is named without waiting for the deadline") {
  const std::string message = error_message([&] {
    threads::launch(
        3,
        [&](threads comm) {
          quadratic<fp64> model;
          trainer run{model, sgd{}, slow_start, ring{comm}};
          for (int k = 0; k < (comm.rank() == 1 ? 2 : 5); ++k) run.step(std::array{one_each(3)}, k);
        },
        long_deadline);
  });
  CHECK(contains(message, "rank 1 has left the run"));
}
