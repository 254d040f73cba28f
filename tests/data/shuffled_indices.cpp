// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/shuffled_indices.hpp>

using namespace cordee;
using namespace cordee::detail::data;

TEST_CASE("shuffled_indices: each epoch is a permutation, for any size") {
  for (const std::size_t size : {0u, 1u, 2u, 3u, 5u, 8u, 1000u})
    for (const std::int64_t epoch : {0, 1, 89}) {
      std::vector<std::uint32_t> indices = shuffled_indices(1, epoch, size), sorted(size);
      std::iota(sorted.begin(), sorted.end(), 0u);
      CHECK(shuffled_indices(1, epoch, size) == indices);
      std::sort(indices.begin(), indices.end());
      CHECK(indices == sorted);
    }
}

TEST_CASE("shuffled_indices: other seeds and epochs give other permutations") {
  CHECK(shuffled_indices(1, 0, 100) != shuffled_indices(1, 1, 100));
  CHECK(shuffled_indices(1, 0, 100) != shuffled_indices(2, 0, 100));
}

TEST_CASE("shuffled_indices: each sample is equally likely at each index") {
  constexpr std::size_t n = 5;
  constexpr int epochs = 20000;
  std::vector<int> counts(n * n);
  for (int e = 0; e < epochs; ++e) {
    const auto indices = shuffled_indices(3, e, n);
    for (std::size_t i = 0; i < n; ++i) ++counts[i * n + indices[i]];
  }
  // Binomial with p = 1/5: mean 4,000, standard deviation 57; five of them.
  for (const int count : counts) CHECK(std::abs(count - epochs / 5) < 285);
}
