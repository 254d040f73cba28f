// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/order.hpp>

using namespace cordee;

TEST_CASE("order: each epoch is a permutation, whatever the size") {
  for (const std::size_t size : {0u, 1u, 2u, 3u, 5u, 8u, 1000u})
    for (const std::int64_t epoch : {0, 1, 89}) {
      std::vector<std::uint32_t> places = order(1, epoch, size), all(size);
      std::iota(all.begin(), all.end(), 0u);
      CHECK(order(1, epoch, size) == places);
      std::sort(places.begin(), places.end());
      CHECK(places == all);
    }
}

TEST_CASE("order: seed and epoch make a difference") {
  CHECK(order(1, 0, 100) != order(1, 1, 100));
  CHECK(order(1, 0, 100) != order(2, 0, 100));
}

TEST_CASE("order: each sample is equally likely at each place") {
  constexpr std::size_t n = 5;
  constexpr int epochs = 20000;
  std::vector<int> times(n * n);
  for (int e = 0; e < epochs; ++e) {
    const auto places = order(3, e, n);
    for (std::size_t at = 0; at < n; ++at) ++times[at * n + places[at]];
  }
  // Binomial with p = 1/5: deviation 57 of 4,000; five of them.
  for (const int t : times) CHECK(std::abs(t - epochs / 5) < 285);
}
