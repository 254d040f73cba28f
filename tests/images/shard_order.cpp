// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <set>

#include <doctest/doctest.h>

#include <cordee/images/shard_order.hpp>

using namespace cordee;
using namespace cordee::detail::images;
using order = std::vector<std::uint32_t>;

namespace {

std::size_t shard_of(const std::vector<std::size_t>& ends, std::uint32_t i) {
  return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), i) - ends.begin());
}

}  // namespace

TEST_CASE("shard order: a permutation for shards and buffers of any size") {
  for (const std::vector<std::size_t>& ends :
       {std::vector<std::size_t>{}, {0}, {1}, {5}, {0, 3, 3, 10}, {100, 101, 350}})
    for (const std::size_t buffer : {0u, 1u, 2u, 7u, 1000u}) {
      order sorted = shard_order(ends, buffer, 3, 4);
      CHECK(sorted == shard_order(ends, buffer, 3, 4));
      std::sort(sorted.begin(), sorted.end());
      order all(ends.empty() ? 0 : ends.back());
      std::iota(all.begin(), all.end(), 0u);
      CHECK(sorted == all);
    }
}

TEST_CASE("shard order: without a buffer, shards are shuffled and each is read in its order") {
  const std::vector<std::size_t> ends{10, 20, 30, 40, 50, 60};
  std::set<order> first;
  for (int epoch = 0; epoch < 20; ++epoch) {
    const order all = shard_order(ends, 0, 1, epoch);
    for (std::size_t i = 0; i < 60; ++i) CHECK(all[i] == all[i / 10 * 10] + i % 10);
    order shards;
    for (std::size_t i = 0; i < 60; i += 10) shards.push_back(all[i]);
    first.insert(shards);
  }
  CHECK(first.size() > 15);  // of 720 permutations: 20 draws have 0.26 pairs in expectation
}

TEST_CASE(
    "shard order: no sample is drawn before it can be in the buffer, and all leave it at last") {
  const std::vector<std::size_t> ends{500, 1000, 1500, 2000};
  constexpr std::size_t buffer = 100;
  const order sequential = shard_order(ends, 0, 9, 2), all = shard_order(ends, buffer, 9, 2);
  std::vector<std::size_t> place(2000);
  for (std::size_t k = 0; k < 2000; ++k) place[sequential[k]] = k;
  std::size_t moved = 0;
  for (std::size_t k = 0; k < 2000; ++k) {
    CHECK(place[all[k]] < k + buffer);
    moved += place[all[k]] != k ? 1 : 0;
  }
  CHECK(moved > 1900);
  // A rank's share of an update, 64 samples in a row, is in few shards.
  for (std::size_t k = 0; k + 64 <= 2000; k += 64) {
    std::set<std::size_t> shards;
    for (std::size_t j = k; j < k + 64; ++j) shards.insert(shard_of(ends, all[j]));
    CHECK(shards.size() <= 3);  // stragglers may stay in the buffer
  }
}
