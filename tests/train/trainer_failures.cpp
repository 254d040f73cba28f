// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/gossip.hpp>
#include <cordee/comm/group.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("a throw in one rank ends the run with its message on every rank") {
  for (const int ranks : {2, 3, 5}) {
    std::vector<std::string> said(static_cast<std::size_t>(ranks));
    const std::string first = complaint([&] {
      threads::launch(
          ranks,
          [&](threads link) {
            struct thrower : quadratic<fp64> {
              int rank = 0;
              void forward(const image& w, span_on<double, cpu> p, const batch<cpu>& b, phase ph,
                           cpu::stream s) {
                if (rank == 1 && step == 2) throw error("the sensor fell off");
                quadratic<fp64>::forward(w, p, b, ph, s);
              }
            };
            thrower model;
            model.rank = link.rank();
            trainer run{model, sgd{}, slow_start, ring{link}};
            try {
              for (int k = 0; k < 9; ++k) run.step(std::array{one_each(ranks)}, k);
            } catch (const std::exception& e) {
              said[static_cast<std::size_t>(link.rank())] = e.what();
              throw;
            }
          },
          patient);
    });
    CHECK(first == "rank 1: the sensor fell off");
    for (const std::string& s : said) CHECK(contains(s, "the sensor fell off"));
  }
}

TEST_CASE(
    "a rank that falls silent ends the run at the deadline, and is named on every other rank") {
  for (const bool comes_back : {false, true}) {
    std::vector<std::string> said(3);
    crevasse deep;
    const std::string first = complaint([&] {
      threads::launch(3,
                      [&](threads link) {
                        quadratic<fp64> model;
                        trainer run{model, sgd{}, slow_start, ring{link}};
                        try {
                          deep.beside([&] {
                            for (int k = 0; k < 9; ++k) {
                              if (link.rank() == 2 && k == 3) deep.fall();
                              if (link.rank() == 2 && k == 3 && !comes_back) return;
                              run.step(std::array{one_each(3)}, k);
                            }
                          });
                        } catch (const std::exception& e) {
                          said[static_cast<std::size_t>(link.rank())] = e.what();
                          throw;
                        }
                      },
                      {.deadline = std::chrono::milliseconds(2000)});
    });
    CHECK(contains(first, "for rank 2 to"));
    for (std::size_t rank = 0; rank < said.size(); ++rank)
      CHECK(contains(said[rank], "for rank 2 to") == (rank < 2 || comes_back));
    // The report: of each rank what it awaits and what it has finished last, by step and
    // parameters, and of who is silent what the others' mean was made of.
    CHECK(contains(first,
                   "(step 3, round 3, bucket 0 (W1 to b2, 2048 bytes); last finished: step 2, "
                   "round 2, bucket 0"));
    CHECK(contains(first, comes_back ? "\n  rank 2 had waited "
                                     : "\n  rank 2 told of no exchange; took part up to step 2, "
                                       "round 2, bucket 0 (W1 to b2, 2048 bytes), which rank "));
    CHECK(contains(first, comes_back ? "\n  look first at rank 2: it had waited least"
                                     : "\n  look first at rank 2: no word of a wait from there"));
    CHECK(contains(
        first, text("\n  rank ", contains(first, "rank 0: rank 0 waited") ? 1 : 0, " had waited ")
                   .c_str()));
  }
}

TEST_CASE(
    "a rank that is elsewhere when the others evaluate is named, with the steps they have done") {
  crevasse deep;
  const std::string said = complaint([&] {
    threads::launch(2,
                    [&](threads link) {
                      quadratic<fp64> model;
                      trainer run{model, sgd{}, slow_start, ring{link}};
                      run.step(std::array{one_each(2)}, 0);
                      if (link.rank() == 1) return deep.fall();
                      deep.beside([&] { run.consensus_distance(); });
                    },
                    {.deadline = std::chrono::milliseconds(2000)});
  });
  CHECK(
      contains(said,
               "on lane 1: it is stuck, or slower than threads::options{.deadline} (trainer "
               "after 1 steps; last finished: step 0, round 0, bucket 0 (W1 to b2, 2048 bytes))"));
  CHECK(contains(said,
                 "\n  rank 1 told of no exchange; took part up to step 0, round 0, bucket 0 (W1 to "
                 "b2, 2048 bytes), which rank 0 has finished"));
}

// What a run of four says of which the last but one falls silent in its fourth step.
template <class Rule, class Make>
std::string silenced(const Rule& rule, const Make& make) {
  crevasse deep;
  return complaint([&] {
    threads::launch(4,
                    [&](threads link) {
                      quadratic<fp64> model;
                      trainer run{model, rule, [](double) { return 0.01; }, make(link)};
                      deep.beside([&] {
                        for (int k = 0; k < 9; ++k) {
                          if (link.rank() == 2 && k == 3) {
                            deep.fall();
                            throw error("too late");  // without a farewell to a server
                          }
                          run.step(std::array{one_each(4)}, k);
                        }
                      });
                    },
                    {.deadline = std::chrono::milliseconds(2000)});
  });
}

TEST_CASE("of a silent rank its neighbours know what it took part in, its server what it pushed") {
  const std::string mixing = silenced(decentlam{}, [](threads link) { return gossip{link}; });
  CHECK(contains(mixing,
                 "\n  rank 2 told of no exchange; took part up to step 2, round 2, bucket 0 (W1 to "
                 "b2, 2048 bytes), which rank "));
  CHECK_FALSE(contains(mixing, "which rank 0 has finished"));  // which does not hear rank 2
  const std::string loose = silenced(local{sgd{}, 1}, [](threads link) {
    return server{link, asynchronous{.bound = 0}};
  });
  CHECK(contains(loose,
                 "\n  rank 2 told of no exchange; took part up to its push 3, which rank 0 has "
                 "finished"));
}

TEST_CASE("a group's ranks are the run's where a stall is told") {
  crevasse deep;
  const std::string said = complaint([&] {
    threads::launch(
        4,
        [&](threads link) {
          const group ours{link, link.rank() % 2 == 0 ? std::vector{2, 0} : std::vector{3, 1}};
          quadratic<fp64> model;
          trainer run{model, sgd{}, slow_start, ring{ours}};
          deep.beside([&] {
            for (int k = 0; k < 3; ++k) {
              if (link.rank() == 3 && k == 1) return deep.fall();
              run.step(std::array{one_each(2)}, k);
            }
          });
        },
        {.deadline = std::chrono::milliseconds(2000)});
  });
  CHECK(contains(said,
                 "\n  rank 3 told of no exchange; took part up to step 0, round 0, bucket 0 (W1 to "
                 "b2, 2048 bytes), which rank 1 has finished"));
}

TEST_CASE("a rank that leaves early is named at once") {
  const std::string said = complaint([&] {
    threads::launch(
        3,
        [&](threads link) {
          quadratic<fp64> model;
          trainer run{model, sgd{}, slow_start, ring{link}};
          for (int k = 0; k < (link.rank() == 1 ? 2 : 5); ++k) run.step(std::array{one_each(3)}, k);
        },
        patient);
  });
  CHECK(contains(said, "rank 1 has left the run"));
}
