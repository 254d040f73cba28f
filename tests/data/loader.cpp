// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace cordee::detail::data;
using namespace support;

TEST_CASE("update k is a function of the seed and k, also after a seek") {
  const synthetic data{.extent = {1, 6, 6}, .samples = 50};
  const pad_crop_flip crop{.pad = 2, .flip = true};
  const loader_options options{.global_batch = 12, .accumulate = 2, .seed = 5};
  using content = std::pair<std::vector<std::uint8_t>, std::vector<std::int32_t>>;
  const auto copy = [](std::span<const batch<cpu>> micro) {
    content update;
    for (const auto& b : micro) {
      update.first.insert(update.first.end(), b.pixels.begin(), b.pixels.end());
      update.second.insert(update.second.end(), b.labels.begin(), b.labels.end());
    }
    return update;
  };
  std::vector<content> expected;
  loader feed{data, rank_stub{1, 2}, options, crop};
  for (int k = 0; k < 12; ++k) {
    CHECK(feed.step() == k);
    expected.push_back(copy(feed.next()));
  }
  for (const std::int64_t k : {0, 11, 5, 6, 7, 2, 2, 1}) {
    CAPTURE(k);
    feed.seek(k);
    CHECK(feed.step() == k);
    CHECK(copy(feed.next()) == expected[static_cast<std::size_t>(k)]);
    CHECK(feed.step() == k + 1);
  }
  loader later{data, rank_stub{1, 2}, options, crop};
  later.seek(7);
  CHECK(copy(later.next()) == expected[7]);
}

TEST_CASE("augmentation depends on seed, epoch and sample, not on ranks or threads") {
  const auto pixels = [](int ranks, std::uint64_t seed) {
    std::vector<std::vector<std::uint8_t>> by_rank(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        loader feed{synthetic{.extent = {3, 6, 6}, .samples = 24},
                    rank_stub{r, ranks},
                    {.global_batch = 24, .seed = seed},
                    pad_crop_flip{.pad = 2, .flip = true}};
        for (const auto& b : feed.next())
          by_rank[static_cast<std::size_t>(r)].assign(b.pixels.begin(), b.pixels.end());
      });
    for (auto& t : threads) t.join();
    std::vector<std::uint8_t> update;
    for (const auto& rank : by_rank) update.insert(update.end(), rank.begin(), rank.end());
    return update;
  };
  const auto one_rank = pixels(1, 4);
  for (const int ranks : world_sizes) CHECK(pixels(ranks, 4) == one_rank);
  CHECK(pixels(1, 5) != one_rank);
}

TEST_CASE("the same sample is cropped differently in other epochs") {
  loader feed{synthetic{.extent = {1, 16, 16}, .classes = 1, .samples = 1},
              rank_stub{},
              {.global_batch = 1},
              pad_crop_flip{.pad = 4, .flip = true}};
  std::vector<std::vector<std::uint8_t>> epochs;
  for (int e = 0; e < 8; ++e) {
    const auto& b = feed.next()[0];
    epochs.emplace_back(b.pixels.begin(), b.pixels.end());
  }
  std::sort(epochs.begin(), epochs.end());
  epochs.erase(std::unique(epochs.begin(), epochs.end()), epochs.end());
  CHECK(epochs.size() > 4);  // of 162 crops; eight equal ones have probability 1e-15
}

TEST_CASE("an update that was prefetched is made anew when the batch is decided") {
  loader feed{numbered{12}, rank_stub{}, {.global_batch = 6}};
  feed.next();
  feed.next();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (feed.statistics().samples < 18 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  REQUIRE(feed.statistics().samples == 18);  // update 2, the first of epoch 1, is made
  feed.set_batch_schedule({{{1, 2}}});
  CHECK(feed.next().size() == 2);  // of 6 samples each
}

TEST_CASE("fetching the next update does not change the current one") {
  loader feed{numbered{}, rank_stub{}, {.global_batch = 12, .seed = 1}};
  for (int k = 0; k < 20; ++k) {
    const auto micro = feed.next();
    const std::vector<int> before = samples_of(micro);
    std::this_thread::yield();
    CHECK(samples_of(micro) == before);
  }
}

TEST_CASE("next throws what the data set threw, at each call for that update") {
  loader feed{numbered{.unreadable = 17}, rank_stub{}, {.global_batch = 10, .seed = 2}};
  const std::vector<std::uint32_t> order = shuffled_indices(2, 0, 50);
  const auto bad = std::find(order.begin(), order.end(), 17u) - order.begin();
  for (int k = 0; k < bad / 10; ++k) CHECK(samples_of(feed.next()).size() == 10);
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK(contains_all(message_of<error>([&] { feed.next(); }), {"example 17 cannot be read"}));
    CHECK(feed.step() == bad / 10);
  }
  feed.seek(bad / 10 + 1);
  CHECK(samples_of(feed.next()).size() == 10);
}

TEST_CASE("the failure of an update that is not requested is not thrown") {
  loader feed{numbered{.unreadable = shuffled_indices(2, 0, 50)[15]},
              rank_stub{},
              {.global_batch = 10, .seed = 2}};
  feed.next();  // update 1 is prefetched and fails
  feed.seek(2);
  CHECK(samples_of(feed.next()).size() == 10);
}

TEST_CASE("a loader may be destroyed unused, during a prefetch, and after a failure") {
  for (int round = 0; round < 50; ++round) {
    {
      loader feed{numbered{}, rank_stub{}, {.global_batch = 12}};
    }
    {
      loader feed{numbered{}, rank_stub{}, {.global_batch = 12}};
      feed.next();
    }
    {
      loader feed{numbered{.unreadable = 0}, rank_stub{}, {.global_batch = 50}};
      CHECK_THROWS_AS(feed.next(), error);
    }
  }
}

TEST_CASE("every batch carries the normalization") {
  loader feed{numbered{},
              rank_stub{},
              {.global_batch = 12, .accumulate = 2},
              pad_crop_flip{},
              normalize{.mean = {0.5}, .deviation = {0.25}}};
  CHECK(feed.normalization().scale[0] == 4);
  for (const auto& b : feed.next()) {
    CHECK(b.normalization.mean[0] == 0.5f);
    CHECK(b.normalization.scale[0] == 4);
  }
}

TEST_CASE("steps and epochs are those of batch_plan") {
  for (const last_batch t : last_batch_modes) {
    loader feed{numbered{}, rank_stub{0, 2}, {.global_batch = 12, .last_batch = t}};
    const detail::data::batch_plan p{50, 12, t};
    CHECK(feed.samples() == 50);
    CHECK(feed.image() == extent{1, 1, 2});
    CHECK(feed.classes() == 7);
    CHECK(feed.steps(7) == p.steps(7));
    for (int k = 0; k < 30; ++k) CHECK(feed.epoch(k) == p.epoch(k));
  }
}

TEST_CASE("exactly one of global_batch and micro_batch is set") {
  const auto refusal = [](loader_options options) {
    return message_of<usage_error>([&] { loader feed{numbered{}, rank_stub{}, options}; });
  };
  CHECK(contains_all(refusal({}), {"either .global_batch or .micro_batch"}));
  CHECK(contains_all(refusal({.global_batch = 8, .micro_batch = 8}),
                     {"either .global_batch or .micro_batch"}));
  CHECK(contains_all(refusal({.global_batch = -8}), {"either .global_batch or .micro_batch"}));
  CHECK(contains_all(refusal({.global_batch = 8, .micro_batch = -1}),
                     {"either .global_batch or .micro_batch"}));
  CHECK(contains_all(refusal({.global_batch = 8, .accumulate = 0}), {".accumulate"}));
}

TEST_CASE("a batch whose samples cannot be counted is refused by its factors") {
  const auto refusal = [](int ranks, loader_options options) {
    return message_of<usage_error>([&] { loader feed{numbered{}, rank_stub{0, ranks}, options}; });
  };
  constexpr std::int64_t most = 2147483647, large = std::int64_t{1} << 62;
  CHECK(contains_all(refusal(4, {.micro_batch = large + 1}),
                     {"4611686018427387905 samples per micro-batch x 4 ranks x 1 micro-batches",
                      "at most 2147483647"}));
  CHECK(contains_all(refusal(1, {.global_batch = most + 1}), {"a global batch of 2147483648"}));
  CHECK(contains_all(refusal(1 << 16, {.global_batch = 8, .accumulate = 1 << 15}),
                     {"65536 ranks x 32768"}));
  CHECK(detail::data::checked_global_batch({.global_batch = most}, 1) == most);
  CHECK(detail::data::checked_global_batch({.micro_batch = most / 4}, 4) == most / 4 * 4);
}

TEST_CASE("an update that no memory holds is refused before it is read") {
  const auto refusal = [](loader_options options) {
    const synthetic photographs{.extent = {3, 512, 512}};  // 1.7e15 bytes of 2^31
    return message_of<usage_error>([&] { loader feed{photographs, rank_stub{0, 1}, options}; });
  };
  CHECK(contains_all(refusal({.global_batch = 2147483647}),
                     {"2147483647 samples in 1 micro-batches", "GB on a rank, and this host has ",
                      " GB: lower .global_batch"}));
  CHECK(contains_all(refusal({.micro_batch = 1, .accumulate = 2147483647}),
                     {"2147483647 micro-batches", ".accumulate"}));
  CHECK(refusal({.global_batch = 8}).empty());
}

TEST_CASE("a step that cannot be counted is refused") {
  loader feed{numbered{}, rank_stub{}, {.global_batch = 12}};
  const std::int64_t most = batch_plan{50, 12, last_batch::carry}.most_steps();
  CHECK_THROWS_AS(feed.seek(-1), usage_error);
  CHECK_THROWS_AS(feed.seek(most + 1), usage_error);
  feed.seek(most);
  CHECK(samples_of(feed.next()).size() == 12);
  CHECK_THROWS_AS(feed.next(), usage_error);
}

TEST_CASE("drop refuses a batch larger than the data set, with a remedy") {
  const auto refusal = [](loader_options options) {
    return message_of<error>([&] { loader feed{numbered{}, rank_stub{}, options}; });
  };
  CHECK(contains_all(refusal({.global_batch = 51, .last_batch = last_batch::drop}),
                     {"51", "50 samples", "last_batch::carry", "last_batch::pad"}));
  CHECK(refusal({.global_batch = 50, .last_batch = last_batch::drop}).empty());
  CHECK(refusal({.global_batch = 51, .last_batch = last_batch::carry}).empty());
}

TEST_CASE("a data set without samples is refused") {
  CHECK(contains_all(message_of<error>([] {
                       loader feed{numbered{.count = 0}, rank_stub{}, {.global_batch = 1}};
                     }),
                     {"empty"}));
}

TEST_CASE("the description has the factors of the global batch") {
  const loader feed{numbered{}, rank_stub{0, 2}, {.micro_batch = 4, .accumulate = 3}};
  CHECK(contains_all(feed.describe(),
                     {"global batch 24 = 4 per micro-batch x 2 ranks x 3", "across epochs"}));
}
