// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/consensus.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

namespace {

// The distance, and x after it.
struct result {
  double distance;
  std::vector<double> x;
};

result distance_of(threads comm, std::vector<double> x) {
  const double d =
      consensus_distance(comm, cpu{1}, span_on<double, cpu>{x.data(), x.size()}, cpu::stream{});
  return {d, x};
}

}  // namespace

TEST_CASE("consensus_distance: the root mean square over ranks of the distance to the mean") {
  for (const int ranks : rank_counts) {
    CAPTURE(ranks);
    // Rank r holds (r, 10 - 2 r, 7): variance (p^2 - 1) / 12 of the ranks, once and four times.
    const auto by_rank = on_ranks(ranks, [](threads comm) {
      return distance_of(comm, {1.0 * comm.rank(), 10 - 2.0 * comm.rank(), 7});
    });
    for (const result& s : by_rank) {
      CHECK(close(s.distance, std::sqrt(5.0 * (ranks * ranks - 1) / 12), 1e-14));
      CHECK(s.distance == by_rank[0].distance);  // to the bit
    }
  }
}

TEST_CASE("consensus_distance: 0 between ranks that agree, and x is unchanged") {
  for (const result& s : on_ranks(4, [](threads comm) { return distance_of(comm, {0.5, -3, 8}); }))
    CHECK(s.distance == 0);
  for (const result& s : on_ranks(4, [](threads comm) { return distance_of(comm, {}); }))
    CHECK(s.distance == 0);
  const auto by_rank =
      on_ranks(3, [](threads comm) { return distance_of(comm, {4.0 * comm.rank()}); });
  for (std::size_t r = 0; r < by_rank.size(); ++r)
    CHECK(by_rank[r].x[0] == 4.0 * static_cast<double>(r));
}

TEST_CASE("consensus_distance: a NaN on one rank makes it NaN") {
  for (const result& s : on_ranks(3, [](threads comm) {
         return distance_of(comm, {comm.rank() == 1 ? std::nan("") : 1.0, 2});
       }))
    CHECK(std::isnan(s.distance));
}
