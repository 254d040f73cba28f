// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr std::array rank_counts{1, 2, 3, 5, 8};
constexpr std::array tails{tail::drop, tail::pad, tail::carry};

std::vector<int> samples_of(std::span<const batch<cpu>> micro) {
  std::vector<int> all;
  for (const batch<cpu>& b : micro) {
    REQUIRE(b.pixels.size == 2 * static_cast<std::size_t>(b.count));
    REQUIRE(b.labels.size == static_cast<std::size_t>(b.count));
    for (std::size_t i = 0; i < b.labels.size; ++i) {
      all.push_back(b.pixels[2 * i] + 256 * b.pixels[2 * i + 1]);
      CHECK(b.labels[i] == all.back() % 7);
    }
  }
  return all;
}

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
      for (const int ranks : rank_counts)
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
    for (const int ranks : rank_counts)
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
  for (const int ranks : rank_counts) {
    loader feed{numbered{}, place_of{0, ranks}, {.per_rank = 4, .accumulate = 3}};
    CHECK(feed.global_batch() == 4 * ranks * 3);
    CHECK(feed.per_rank() == 4);
    CHECK(feed.ranks() == ranks);
    CHECK(feed.accumulate() == 3);
    for (const auto& b : feed.next()) CHECK(b.count == 4);
  }
}

TEST_CASE("update k is a function of the seed and k: seeking is resuming") {
  const synthetic data{.extent = {1, 6, 6}, .samples = 50};
  const augment crop{.pad = 2, .flip = true};
  const batching how{.global_batch = 12, .accumulate = 2, .seed = 5};
  using content = std::pair<std::vector<std::uint8_t>, std::vector<std::int32_t>>;
  const auto copy = [](std::span<const batch<cpu>> micro) {
    content all;
    for (const auto& b : micro) {
      all.first.insert(all.first.end(), b.pixels.begin(), b.pixels.end());
      all.second.insert(all.second.end(), b.labels.begin(), b.labels.end());
    }
    return all;
  };
  std::vector<content> straight;
  loader feed{data, place_of{1, 2}, how, crop};
  for (int k = 0; k < 12; ++k) {
    CHECK(feed.step() == k);
    straight.push_back(copy(feed.next()));
  }
  for (const std::int64_t k : {0, 11, 5, 6, 7, 2, 2, 1}) {
    CAPTURE(k);
    feed.seek(k);
    CHECK(feed.step() == k);
    CHECK(copy(feed.next()) == straight[static_cast<std::size_t>(k)]);
    CHECK(feed.step() == k + 1);
  }
  loader later{data, place_of{1, 2}, how, crop};
  later.seek(7);
  CHECK(copy(later.next()) == straight[7]);
}

TEST_CASE("augmentation depends on seed, epoch and sample, not on ranks or threads") {
  const auto pixels = [](int ranks, std::uint64_t seed) {
    std::vector<std::vector<std::uint8_t>> by_rank(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        loader feed{synthetic{.extent = {3, 6, 6}, .samples = 24},
                    place_of{r, ranks},
                    {.global_batch = 24, .seed = seed},
                    augment{.pad = 2, .flip = true}};
        for (const auto& b : feed.next())
          by_rank[static_cast<std::size_t>(r)].assign(b.pixels.begin(), b.pixels.end());
      });
    for (auto& t : threads) t.join();
    std::vector<std::uint8_t> all;
    for (const auto& own : by_rank) all.insert(all.end(), own.begin(), own.end());
    return all;
  };
  const auto alone = pixels(1, 4);
  for (const int ranks : rank_counts) CHECK(pixels(ranks, 4) == alone);
  CHECK(pixels(1, 5) != alone);
}

TEST_CASE("the same sample is cut otherwise in another epoch") {
  loader feed{synthetic{.extent = {1, 16, 16}, .classes = 1, .samples = 1},
              place_of{},
              {.global_batch = 1},
              augment{.pad = 4, .flip = true}};
  std::vector<std::vector<std::uint8_t>> epochs;
  for (int e = 0; e < 8; ++e) {
    const auto& b = feed.next()[0];
    epochs.emplace_back(b.pixels.begin(), b.pixels.end());
  }
  std::sort(epochs.begin(), epochs.end());
  epochs.erase(std::unique(epochs.begin(), epochs.end()), epochs.end());
  CHECK(epochs.size() > 4);  // of 162 cuts; all eight alike would be a chance of 1e-15
}

TEST_CASE("the next update is fetched while this one is used, and does not disturb it") {
  loader feed{numbered{}, place_of{}, {.global_batch = 12, .seed = 1}};
  for (int k = 0; k < 20; ++k) {
    const auto micro = feed.next();
    const std::vector<int> before = samples_of(micro);
    std::this_thread::yield();
    CHECK(samples_of(micro) == before);
  }
}

TEST_CASE("what the data set throws comes out of next, each time it is asked for") {
  loader feed{numbered{.bad = 17}, place_of{}, {.global_batch = 10, .seed = 2}};
  const std::vector<std::uint32_t> places = order(2, 0, 50);
  const auto bad = std::find(places.begin(), places.end(), 17u) - places.begin();
  for (int k = 0; k < bad / 10; ++k) CHECK(samples_of(feed.next()).size() == 10);
  for (int again = 0; again < 2; ++again) {
    CHECK(says(said<error>([&] { feed.next(); }), {"example 17 cannot be read"}));
    CHECK(feed.step() == bad / 10);
  }
  feed.seek(bad / 10 + 1);
  CHECK(samples_of(feed.next()).size() == 10);
}

TEST_CASE("an update that failed and was never asked for is forgotten") {
  loader feed{numbered{.bad = order(2, 0, 50)[15]}, place_of{}, {.global_batch = 10, .seed = 2}};
  feed.next();  // update 1 is fetched ahead, and fails
  feed.seek(2);
  CHECK(samples_of(feed.next()).size() == 10);
}

TEST_CASE("a loader may go at any time: unused, with an update under way, after a failure") {
  for (int round = 0; round < 50; ++round) {
    {
      loader feed{numbered{}, place_of{}, {.global_batch = 12}};
    }
    {
      loader feed{numbered{}, place_of{}, {.global_batch = 12}};
      feed.next();
    }
    {
      loader feed{numbered{.bad = 0}, place_of{}, {.global_batch = 50}};
      CHECK_THROWS_AS(feed.next(), error);
    }
  }
}

TEST_CASE("normalisation travels with every batch") {
  loader feed{numbered{},
              place_of{},
              {.global_batch = 12, .accumulate = 2},
              augment{},
              normalise{.mean = {0.5}, .deviation = {0.25}}};
  CHECK(feed.norm().scale[0] == 4);
  for (const auto& b : feed.next()) {
    CHECK(b.norm.mean[0] == 0.5f);
    CHECK(b.norm.scale[0] == 4);
  }
}

TEST_CASE("steps and epochs are the plan's") {
  for (const tail t : tails) {
    loader feed{numbered{}, place_of{0, 2}, {.global_batch = 12, .tail = t}};
    const batch_plan p{50, 12, t};
    CHECK(feed.samples() == 50);
    CHECK(feed.image() == extent{1, 1, 2});
    CHECK(feed.classes() == 7);
    CHECK(feed.steps(7) == p.steps(7));
    for (int k = 0; k < 30; ++k) CHECK(feed.epoch(k) == p.epoch(k));
  }
}

TEST_CASE("either the global batch or the batch per rank is given") {
  const auto make = [](batching how) {
    return said<misuse>([&] { loader feed{numbered{}, place_of{}, how}; });
  };
  CHECK(says(make({}), {"either .global_batch or .per_rank"}));
  CHECK(says(make({.global_batch = 8, .per_rank = 8}), {"either .global_batch or .per_rank"}));
  CHECK(says(make({.global_batch = -8}), {"either .global_batch or .per_rank"}));
  CHECK(says(make({.global_batch = 8, .per_rank = -1}), {"either .global_batch or .per_rank"}));
  CHECK(says(make({.global_batch = 8, .accumulate = 0}), {".accumulate"}));
}

TEST_CASE("drop refuses a batch that would drop everything, and names the remedy") {
  const auto make = [](batching how) {
    return said<error>([&] { loader feed{numbered{}, place_of{}, how}; });
  };
  CHECK(says(make({.global_batch = 51, .tail = tail::drop}),
             {"51", "50 samples", "tail::carry", "tail::pad"}));
  CHECK(make({.global_batch = 50, .tail = tail::drop}).empty());
  CHECK(make({.global_batch = 51, .tail = tail::carry}).empty());
}

TEST_CASE("a data set without samples is refused") {
  CHECK(says(said<error>([] {
               loader feed{numbered{.count = 0}, place_of{}, {.global_batch = 1}};
             }),
             {"empty"}));
}

TEST_CASE("the loader says how the global batch comes about") {
  const loader feed{numbered{}, place_of{0, 2}, {.per_rank = 4, .accumulate = 3}};
  CHECK(says(feed.describe(), {"global batch 24 = 4 per rank x 2 ranks x 3", "across epochs"}));
}
