// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of every graph on every number of ranks: tests/comm/topology.cpp.
#include <doctest/doctest.h>

#include <cordee/comm/stability.hpp>
#include <cordee/comm/topology/user_graph.hpp>

#include "tests/support/graphs.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("a graph of one's own that keeps no mean or never agrees is refused by a sentence") {
  const auto says = [](const auto& make, const char* sentence) {
    const std::string said = complaint(make);
    CAPTURE(said);
    CHECK(contains(said, sentence));
  };
  says(
      [] {
        user_graph::metropolis({{1}, {0}, {3}, {2}});
      },
      "no path leads from rank 0 to rank 2: they would never agree");
  says([] { user_graph::metropolis({{}, {}}); }, "no path leads");
  says([] { user_graph::metropolis({{1}, {}}); }, "rank 0 meets rank 1, which does not meet it");
  says([] { user_graph::metropolis({{1, 1}, {0}}); }, "rank 0 names rank 1 twice");
  says([] { user_graph::metropolis({{2}, {0}}); }, "rank 0 names rank 2");
  says([] { user_graph::metropolis({{0}}); }, "rank 0 names rank 0");
  says([] { user_graph::metropolis({}); }, "it has no ranks");
  // 1 / (degree + 1) on a path of three: rows sum to one, columns do not.
  const double third = 1.0 / 3;
  says(
      [&] {
        user_graph::weighted({{.5, .5, 0}, {third, third, third}, {0, .5, .5}});
      },
      "column 0 sums to 0.833333, so the ranks' mean would drift");
  says([] { user_graph::weighted({{0.5, 0.4}, {0.5, 0.6}}); }, "row 0 sums to 0.9");
  says([] { user_graph::weighted({{1, 0}, {0, 1}}); }, "no path leads from rank 0 to rank 1");
  const char* const round_for_ever =
      "every way round takes a multiple of 2 rounds: the ranks would pass their values round and "
      "never agree; leave each a share of its own";
  says([] { user_graph::weighted({{0, 1}, {1, 0}}); }, round_for_ever);
  const double some = 1e-14;  // a share that is none
  says([&] { user_graph::weighted({{some, 1 - some}, {1 - some, some}}); }, round_for_ever);
  says([] { user_graph::weighted({{1 - 1e-14, 1e-14}, {1e-14, 1 - 1e-14}}); }, "no path leads");
  says([] { user_graph::weighted({{0, 1, 0}, {0, 0, 1}, {1, 0, 0}}); }, "a multiple of 3 rounds");
  // A cycle of four, each way: in two rounds one is back where one was.
  says(
      [] {
        user_graph::weighted({{0, .5, 0, .5}, {.5, 0, .5, 0}, {0, .5, 0, .5}, {.5, 0, .5, 0}});
      },
      round_for_ever);
  says([] { user_graph::weighted({{1.5, -.5}, {-.5, 1.5}}); }, "the weight -0.5");
  says([] { user_graph::weighted({{1}, {0, 1}}); }, "weights for 2 ranks");
  says(
      [] {
        (void)user_graph::metropolis({{1}, {0}}).in(0, 3, 0);
      },
      "made for 2 ranks, and the run has 3");
}

TEST_CASE(
    "a graph of one's own whose ways round are of 2 and of 3 rounds agrees without own shares") {
  const auto agrees = user_graph::weighted({{0, .5, .5}, {.5, 0, .5}, {.5, .5, 0}});
  CHECK(close(spectral_gap(agrees, 3), 0.5, 1e-12));
}
