// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace support;

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
  for (const int ranks : link_sizes) CHECK(pixels(ranks, 4) == alone);
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
