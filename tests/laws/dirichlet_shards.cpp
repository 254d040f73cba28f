// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/science/dirichlet_shards.hpp"

#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/data/synthetic.hpp>

using namespace cordee;

namespace {

const synthetic data{.extent = {1, 4, 4}, .classes = 10, .samples = 4000};

/// Of the samples of a class the largest share that one rank has, mean over the classes.
double concentration(double alpha) {
  const auto shards = science::dirichlet_shards(data, 8, alpha, 1);
  std::vector<std::size_t> largest(10);
  for (const auto& shard : shards) {
    std::vector<std::size_t> counts(10);
    for (const std::size_t i : shard) ++counts[i % 10];  // synthetic's class
    for (std::size_t c = 0; c < 10; ++c) largest[c] = std::max(largest[c], counts[c]);
  }
  return static_cast<double>(std::accumulate(largest.begin(), largest.end(), std::size_t{0})) /
         4000;
}

}  // namespace

TEST_CASE("every sample is on one of the heterogeneous shards, and none is empty") {
  for (const int ranks : {1, 3, 8})
    for (const double alpha : {0.01, 0.1, 100.0}) {
      const auto shards = science::dirichlet_shards(data, ranks, alpha, 2);
      REQUIRE(shards.size() == static_cast<std::size_t>(ranks));
      std::vector<int> seen(data.size());
      for (const auto& shard : shards) {
        CHECK(!shard.empty());
        for (const std::size_t i : shard) ++seen[i];
      }
      CHECK(std::count(seen.begin(), seen.end(), 1) == 4000);
    }
}

TEST_CASE("ranks that would have no sample get one of the largest shard") {
  const synthetic few{.extent = {1, 4, 4}, .classes = 2, .samples = 12};
  const auto shards = science::dirichlet_shards(few, 8, 0.01, 1);
  std::vector<int> seen(few.size());
  for (const auto& shard : shards) {
    CHECK(!shard.empty());
    for (const std::size_t i : shard) ++seen[i];
  }
  CHECK(std::count(seen.begin(), seen.end(), 1) == 12);
}

TEST_CASE("shards are alike for a large alpha, and have few classes for a small one") {
  // A share of 1/8 has, by Dirichlet's variance (7/64) / (8 alpha + 1), a deviation of 0.0003 at
  // 1e6; at 0.1 the variance is half of that of one rank having all.
  CHECK(concentration(1e6) < 1.0 / 8 + 0.01);
  CHECK(concentration(0.1) > 0.5);
  CHECK(concentration(0.01) > 0.9);
}
