// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/consensus.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// The distance, and what it left of the plane.
struct seen {
  double distance;
  std::vector<double> plane;
};

seen distance_of(threads link, std::vector<double> x) {
  const double d =
      consensus_distance(link, cpu{1}, span_on<double, cpu>{x.data(), x.size()}, cpu::stream{});
  return {d, x};
}

}  // namespace

TEST_CASE("consensus: the root mean square over ranks of the distance to the mean") {
  for (const int ranks : rank_counts) {
    CAPTURE(ranks);
    // Rank r holds (r, 10 - 2 r, 7): variance (p^2 - 1) / 12 of the ranks, once and four times.
    const auto by_rank = on_ranks(ranks, [](threads link) {
      return distance_of(link, {1.0 * link.rank(), 10 - 2.0 * link.rank(), 7});
    });
    for (const seen& s : by_rank) {
      CHECK(close(s.distance, std::sqrt(5.0 * (ranks * ranks - 1) / 12), 1e-14));
      CHECK(s.distance == by_rank[0].distance);  // to the bit
    }
  }
}

TEST_CASE("consensus: nothing between ranks that agree, and the plane is left alone") {
  for (const seen& s : on_ranks(4, [](threads link) { return distance_of(link, {0.5, -3, 8}); }))
    CHECK(s.distance == 0);
  for (const seen& s : on_ranks(4, [](threads link) { return distance_of(link, {}); }))
    CHECK(s.distance == 0);
  const auto by_rank =
      on_ranks(3, [](threads link) { return distance_of(link, {4.0 * link.rank()}); });
  for (std::size_t r = 0; r < by_rank.size(); ++r)
    CHECK(by_rank[r].plane[0] == 4.0 * static_cast<double>(r));
}

TEST_CASE("consensus: a rank that holds no number is not lost among those that do") {
  for (const seen& s : on_ranks(3, [](threads link) {
         return distance_of(link, {link.rank() == 1 ? std::nan("") : 1.0, 2});
       }))
    CHECK(std::isnan(s.distance));
}
