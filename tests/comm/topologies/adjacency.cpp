// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of every topology on every number of ranks: tests/comm/topologies/topologies.cpp.
#include <doctest/doctest.h>

#include <cordee/comm/topologies/adjacency.hpp>
#include <cordee/comm/topologies/stability.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/topologies.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

TEST_CASE("adjacency: a graph that keeps no mean or never converges is refused by an error") {
  const auto check_refusal = [](const auto& make, const char* sentence) {
    const std::string thrown = error_message(make);
    CAPTURE(thrown);
    CHECK(contains(thrown, sentence));
  };
  check_refusal(
      [] {
        topologies::adjacency::metropolis({{1}, {0}, {3}, {2}});
      },
      "no path leads from rank 0 to rank 2: the ranks would never agree");
  check_refusal([] { topologies::adjacency::metropolis({{}, {}}); }, "no path leads");
  check_refusal(
      [] {
        topologies::adjacency::metropolis({{1}, {}});
      },
      "rank 0 lists rank 1, which does not list it");
  check_refusal(
      [] {
        topologies::adjacency::metropolis({{1, 1}, {0}});
      },
      "rank 0 lists rank 1 twice");
  check_refusal([] { topologies::adjacency::metropolis({{2}, {0}}); }, "rank 0 lists rank 2");
  check_refusal([] { topologies::adjacency::metropolis({{0}}); }, "rank 0 lists rank 0");
  check_refusal([] { topologies::adjacency::metropolis({}); }, "it has no ranks");
  // 1 / (degree + 1) on a path of three: rows sum to one, columns do not.
  const double third = 1.0 / 3;
  check_refusal(
      [&] {
        topologies::adjacency::weighted({{.5, .5, 0}, {third, third, third}, {0, .5, .5}});
      },
      "column 0 sums to 0.833333, so the mean over ranks would drift");
  check_refusal(
      [] {
        topologies::adjacency::weighted({{0.5, 0.4}, {0.5, 0.6}});
      },
      "row 0 sums to 0.9");
  check_refusal(
      [] {
        topologies::adjacency::weighted({{1, 0}, {0, 1}});
      },
      "no path leads from rank 0 to rank 1");
  const char* const periodic =
      "all cycles have lengths that are multiples of 2: the ranks would pass their values round "
      "and "
      "never agree; leave each rank a weight of its own (a diagonal above 0)";
  check_refusal([] { topologies::adjacency::weighted({{0, 1}, {1, 0}}); }, periodic);
  const double some = 1e-14;  // negligible
  check_refusal(
      [&] {
        topologies::adjacency::weighted({{some, 1 - some}, {1 - some, some}});
      },
      periodic);
  check_refusal(
      [] {
        topologies::adjacency::weighted({{1 - 1e-14, 1e-14}, {1e-14, 1 - 1e-14}});
      },
      "no path leads");
  check_refusal(
      [] {
        topologies::adjacency::weighted({{0, 1, 0}, {0, 0, 1}, {1, 0, 0}});
      },
      "multiples of 3");
  // A ring of four, in both directions: all cycles are even.
  check_refusal(
      [] {
        topologies::adjacency::weighted(
            {{0, .5, 0, .5}, {.5, 0, .5, 0}, {0, .5, 0, .5}, {.5, 0, .5, 0}});
      },
      periodic);
  check_refusal(
      [] {
        topologies::adjacency::weighted({{1.5, -.5}, {-.5, 1.5}});
      },
      "the weight -0.5");
  check_refusal([] { topologies::adjacency::weighted({{1}, {0, 1}}); }, "weights for 2 ranks");
  check_refusal(
      [] {
        (void)topologies::adjacency::metropolis({{1}, {0}}).in_edges(0, 3, 0);
      },
      "made for 2 ranks, and the run has 3");
}

TEST_CASE("adjacency: with cycles of lengths 2 and 3 the ranks converge without a diagonal") {
  const auto triangle = topologies::adjacency::weighted({{0, .5, .5}, {.5, 0, .5}, {.5, .5, 0}});
  CHECK(close(spectral_gap(triangle, 3), 0.5, 1e-12));
}
