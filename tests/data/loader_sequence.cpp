// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Who sees which sample when.
#include <algorithm>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/loader.hpp>

#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace support;

namespace {

// The samples of updates 0 .. steps-1: over all ranks, in rank order.
std::vector<std::vector<int>> sequence(int ranks, batching how, int steps) {
  std::vector<std::vector<int>> updates(static_cast<std::size_t>(steps));
  for (int r = 0; r < ranks; ++r) {
    loader feed{numbered{}, place_of{r, ranks}, how};
    for (auto& u : updates) {
      const std::vector<int> own = samples_of(feed.next());
      u.insert(u.end(), own.begin(), own.end());
    }
  }
  return updates;
}

std::vector<int> joined(const std::vector<std::vector<int>>& updates) {
  std::vector<int> all;
  for (const auto& u : updates) all.insert(all.end(), u.begin(), u.end());
  return all;
}

bool is_permutation_of_all(std::vector<int> samples, int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  std::sort(samples.begin(), samples.end());
  return samples == all;
}

}  // namespace

TEST_CASE("the sequence of samples does not depend on ranks or accumulation") {
  for (const tail t : tails)
    for (const int batch : {1, 7, 12, 50}) {
      const auto alone = sequence(1, {.global_batch = batch, .seed = 3, .tail = t}, 9);
      for (const int ranks : link_sizes)
        for (const int accumulate : {1, 3}) {
          CAPTURE(batch);
          CAPTURE(ranks);
          CAPTURE(accumulate);
          CHECK(alone ==
                sequence(ranks,
                         {.global_batch = batch, .accumulate = accumulate, .seed = 3, .tail = t},
                         9));
        }
    }
}

TEST_CASE("carry: each epoch is a permutation, across the cuts of the batches") {
  const std::vector<int> all = joined(sequence(3, {.global_batch = 12, .seed = 1}, 25));
  REQUIRE(all.size() == 300);
  std::vector<std::vector<int>> epochs;
  for (std::size_t e = 0; e < 6; ++e) {
    epochs.emplace_back(all.begin() + static_cast<long>(50 * e),
                        all.begin() + static_cast<long>(50 * e + 50));
    CHECK(is_permutation_of_all(epochs.back(), 50));
    for (std::size_t other = 0; other < e; ++other) CHECK(epochs[e] != epochs[other]);
  }
}

TEST_CASE("pad: each sample comes once, the first ones of the epoch once more") {
  const std::vector<int> all =
      joined(sequence(3, {.global_batch = 12, .seed = 1, .tail = tail::pad}, 10));
  for (const long start : {0L, 60L}) {
    const std::vector<int> epoch(all.begin() + start, all.begin() + start + 50);
    CHECK(is_permutation_of_all(epoch, 50));
    CHECK(std::equal(epoch.begin(), epoch.begin() + 10, all.begin() + start + 50));
  }
}

TEST_CASE("drop: no sample comes twice, and those left out differ between epochs") {
  const std::vector<int> all =
      joined(sequence(3, {.global_batch = 12, .seed = 1, .tail = tail::drop}, 8));
  std::vector<std::vector<int>> epochs;
  for (const long start : {0L, 48L}) {
    std::vector<int> epoch(all.begin() + start, all.begin() + start + 48);
    std::sort(epoch.begin(), epoch.end());
    CHECK(std::adjacent_find(epoch.begin(), epoch.end()) == epoch.end());
    epochs.push_back(epoch);
  }
  CHECK(epochs[0] != epochs[1]);
}

TEST_CASE("another seed is another sequence, the same seed the same") {
  const auto one = sequence(2, {.global_batch = 12, .seed = 1}, 4);
  CHECK(one == sequence(2, {.global_batch = 12, .seed = 1}, 4));
  CHECK(one != sequence(2, {.global_batch = 12, .seed = 2}, 4));
}

TEST_CASE("ranks and micro-batches have shares that differ by at most one sample") {
  for (const int batch : {1, 2, 12, 31})
    for (const int ranks : link_sizes)
      for (const int accumulate : {1, 2, 3}) {
        CAPTURE(batch);
        CAPTURE(ranks);
        CAPTURE(accumulate);
        int total = 0, least = 1000, most = 0, least_micro = 1000, most_micro = 0;
        for (int r = 0; r < ranks; ++r) {
          loader feed{
              numbered{}, place_of{r, ranks}, {.global_batch = batch, .accumulate = accumulate}};
          const auto micro = feed.next();
          CHECK(micro.size() == static_cast<std::size_t>(accumulate));
          int own = 0;
          for (const auto& b : micro) {
            CHECK(b.global == batch);
            CHECK(b.ranks == ranks);
            own += b.count;
            least_micro = std::min(least_micro, b.count);
            most_micro = std::max(most_micro, b.count);
          }
          total += own;
          least = std::min(least, own);
          most = std::max(most, own);
          CHECK(most_micro <= feed.per_rank());
        }
        CHECK(total == batch);
        CHECK(most - least <= 1);
        CHECK(most_micro - least_micro <= 1);
      }
}

TEST_CASE("global batch = per rank x ranks x accumulation") {
  for (const int ranks : link_sizes) {
    loader feed{numbered{}, place_of{0, ranks}, {.per_rank = 4, .accumulate = 3}};
    CHECK(feed.global_batch() == 4 * ranks * 3);
    CHECK(feed.per_rank() == 4);
    CHECK(feed.ranks() == ranks);
    CHECK(feed.accumulate() == 3);
    for (const auto& b : feed.next()) CHECK(b.count == 4);
  }
}
