// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The sequence of samples over updates and ranks.
#include <algorithm>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/loader.hpp>

#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace support;

namespace {

// The samples of updates 0 .. steps - 1 over all ranks, in rank order.
std::vector<std::vector<int>> sequence(int ranks, loader_options options, int steps) {
  std::vector<std::vector<int>> updates(static_cast<std::size_t>(steps));
  for (int r = 0; r < ranks; ++r) {
    loader feed{numbered{}, rank_stub{r, ranks}, options};
    for (auto& u : updates) {
      const std::vector<int> samples = samples_of(feed.next());
      u.insert(u.end(), samples.begin(), samples.end());
    }
  }
  return updates;
}

std::vector<int> joined(const std::vector<std::vector<int>>& updates) {
  std::vector<int> samples;
  for (const auto& u : updates) samples.insert(samples.end(), u.begin(), u.end());
  return samples;
}

bool is_permutation(std::vector<int> samples, int n) {
  std::vector<int> sorted(static_cast<std::size_t>(n));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::sort(samples.begin(), samples.end());
  return samples == sorted;
}

}  // namespace

TEST_CASE("the sequence of samples does not depend on ranks or accumulation") {
  for (const last_batch t : last_batch_modes)
    for (const int batch : {1, 7, 12, 50}) {
      const auto one_rank = sequence(1, {.global_batch = batch, .seed = 3, .last_batch = t}, 9);
      for (const int ranks : world_sizes)
        for (const int accumulate : {1, 3}) {
          CAPTURE(batch);
          CAPTURE(ranks);
          CAPTURE(accumulate);
          CHECK(one_rank ==
                sequence(
                    ranks,
                    {.global_batch = batch, .accumulate = accumulate, .seed = 3, .last_batch = t},
                    9));
        }
    }
}

TEST_CASE("carry: each epoch is a permutation, although batches cross its end") {
  const std::vector<int> samples = joined(sequence(3, {.global_batch = 12, .seed = 1}, 25));
  REQUIRE(samples.size() == 300);
  std::vector<std::vector<int>> epochs;
  for (std::size_t e = 0; e < 6; ++e) {
    epochs.emplace_back(samples.begin() + static_cast<long>(50 * e),
                        samples.begin() + static_cast<long>(50 * e + 50));
    CHECK(is_permutation(epochs.back(), 50));
    for (std::size_t other = 0; other < e; ++other) CHECK(epochs[e] != epochs[other]);
  }
}

TEST_CASE("pad: each sample is visited once, the first ones of the epoch twice") {
  const std::vector<int> samples =
      joined(sequence(3, {.global_batch = 12, .seed = 1, .last_batch = last_batch::pad}, 10));
  for (const long start : {0L, 60L}) {
    const std::vector<int> epoch(samples.begin() + start, samples.begin() + start + 50);
    CHECK(is_permutation(epoch, 50));
    CHECK(std::equal(epoch.begin(), epoch.begin() + 10, samples.begin() + start + 50));
  }
}

TEST_CASE("drop: no sample is visited twice, and those left out differ between epochs") {
  const std::vector<int> samples =
      joined(sequence(3, {.global_batch = 12, .seed = 1, .last_batch = last_batch::drop}, 8));
  std::vector<std::vector<int>> epochs;
  for (const long start : {0L, 48L}) {
    std::vector<int> epoch(samples.begin() + start, samples.begin() + start + 48);
    std::sort(epoch.begin(), epoch.end());
    CHECK(std::adjacent_find(epoch.begin(), epoch.end()) == epoch.end());
    epochs.push_back(epoch);
  }
  CHECK(epochs[0] != epochs[1]);
}

TEST_CASE("the sequence is a function of the seed") {
  const auto first = sequence(2, {.global_batch = 12, .seed = 1}, 4);
  CHECK(first == sequence(2, {.global_batch = 12, .seed = 1}, 4));
  CHECK(first != sequence(2, {.global_batch = 12, .seed = 2}, 4));
}

TEST_CASE("sizes of ranks' shares and of micro-batches differ by at most one sample") {
  for (const int batch : {1, 2, 12, 31})
    for (const int ranks : world_sizes)
      for (const int accumulate : {1, 2, 3}) {
        CAPTURE(batch);
        CAPTURE(ranks);
        CAPTURE(accumulate);
        int total = 0, min_rank = 1000, max_rank = 0, min_micro = 1000, max_micro = 0;
        for (int r = 0; r < ranks; ++r) {
          loader feed{
              numbered{}, rank_stub{r, ranks}, {.global_batch = batch, .accumulate = accumulate}};
          const auto micro = feed.next();
          CHECK(micro.size() == static_cast<std::size_t>(accumulate));
          int count = 0;
          for (const auto& b : micro) {
            CHECK(b.global_samples == batch);
            CHECK(b.ranks == ranks);
            count += b.count;
            min_micro = std::min(min_micro, b.count);
            max_micro = std::max(max_micro, b.count);
          }
          total += count;
          min_rank = std::min(min_rank, count);
          max_rank = std::max(max_rank, count);
          CHECK(max_micro <= feed.micro_batch());
        }
        CHECK(total == batch);
        CHECK(max_rank - min_rank <= 1);
        CHECK(max_micro - min_micro <= 1);
      }
}

TEST_CASE("global batch = micro-batch x ranks x accumulation") {
  for (const int ranks : world_sizes) {
    loader feed{numbered{}, rank_stub{0, ranks}, {.micro_batch = 4, .accumulate = 3}};
    CHECK(feed.global_batch() == 4 * ranks * 3);
    CHECK(feed.micro_batch() == 4);
    CHECK(feed.ranks() == ranks);
    CHECK(feed.accumulate() == 3);
    for (const auto& b : feed.next()) CHECK(b.count == 4);
  }
}
