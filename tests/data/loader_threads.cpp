// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A loader's threads, and optional members of its data set.
#include <algorithm>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/loader.hpp>
#include <cordee/data/shuffled_indices.hpp>
#include <cordee/data/split.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Example i drawn at random: the index, and three bytes of its sequence.
struct drawn {
  std::size_t count = 50;
  std::vector<std::size_t> unreadable = {};

  extent image() const { return {1, 1, 4}; }
  int classes() const { return 7; }
  std::size_t size() const { return count; }
  int label(std::size_t i) const { return static_cast<int>(i % 7); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    return read(i, pixels, {0, purpose::resampling, 0, i});
  }
  int read(std::size_t i, std::span<std::uint8_t> pixels, random_sequence random) const {
    if (std::count(unreadable.begin(), unreadable.end(), i) > 0)
      throw error(concat("example ", i, " cannot be read"));
    pixels[0] = static_cast<std::uint8_t>(i);
    const std::uint32_t bits = random.bits();
    for (std::size_t k = 1; k < 4; ++k) pixels[k] = static_cast<std::uint8_t>(bits >> 8 * k);
    return label(i);
  }
};
/// With an order of its own, descending and rotated by the epoch.
struct ordered : drawn {
  std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const {
    std::vector<std::uint32_t> all(size());
    std::iota(all.rbegin(), all.rend(), 0u);
    std::rotate(all.begin(),
                all.begin() + static_cast<std::ptrdiff_t>(
                                  (seed + static_cast<std::uint64_t>(epoch)) % size()),
                all.end());
    return all;
  }
  input_statistics::reading_seconds reading() const { return {1, 2, 3}; }
};
static_assert(Dataset<drawn> && detail::data::DrawnAtRandom<drawn> &&
              !detail::data::Ordered<drawn>);
static_assert(detail::data::Ordered<ordered> && !detail::data::DrawnAtRandom<numbered>);

template <class S>
std::vector<std::uint8_t> pixels_of(S data, int ranks, int threads, int prefetch, int updates,
                                    std::int64_t first = 0) {
  std::vector<std::vector<std::uint8_t>> all(static_cast<std::size_t>(updates));
  for (int r = 0; r < ranks; ++r) {
    loader feed{data,
                rank_stub{r, ranks},
                {.global_batch = 24, .seed = 3, .decode_threads = threads, .prefetch = prefetch},
                pad_crop_flip{.pad = 1, .flip = true}};
    feed.seek(first);
    for (auto& update : all)
      for (const auto& b : feed.next())
        update.insert(update.end(), b.pixels.begin(), b.pixels.end());
  }
  std::vector<std::uint8_t> joined;
  for (const auto& update : all) joined.insert(joined.end(), update.begin(), update.end());
  return joined;
}

}  // namespace

TEST_CASE("a loader's bytes depend on neither threads, prefetched updates nor ranks") {
  const auto check = [](const auto& data) {
    const auto expected = pixels_of(data, 1, 1, 1, 6);
    CHECK(expected != pixels_of(data, 1, 1, 1, 6, 1));
    for (const int ranks : world_sizes)
      for (const int threads : {1, 2, 3, 8}) {
        CAPTURE(ranks);
        CAPTURE(threads);
        CHECK(pixels_of(data, ranks, threads, threads % 4 + 1, 6) == expected);
      }
    // Update 4 of a loader that begins there.
    const auto later = pixels_of(data, 2, 3, 2, 2, 4);
    CHECK(std::equal(later.begin(), later.end(), expected.end() - std::ssize(later)));
  };
  check(drawn{});
  check(ordered{});
  check(numbered{});
}

TEST_CASE("a sample is drawn by the sequence of (seed, resampling, epoch, sample)") {
  loader feed{drawn{}, rank_stub{}, {.global_batch = 25, .seed = 9}};
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch)
    for (int k = 0; k < 2; ++k)
      for (const auto& b : feed.next())
        for (std::size_t i = 0; i < 25; ++i) {
          std::vector<std::uint8_t> expected(4);
          const std::size_t sample = b.pixels[4 * i];
          drawn{}.read(sample, expected, {9, purpose::resampling, epoch, sample});
          CHECK(std::equal(expected.begin(), expected.end(), b.pixels.begin() + 4 * i));
        }
}

TEST_CASE("a data set's own order is the loader's") {
  loader feed{ordered{}, rank_stub{}, {.global_batch = 50, .seed = 4}};
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto order = ordered{}.order(4, epoch);
    const auto micro = feed.next();
    for (std::size_t i = 0; i < 50; ++i) CHECK(micro[0].pixels[4 * i] == order[i]);
  }
}

TEST_CASE("of several unreadable samples of an update the first one is named, at each call") {
  const std::vector<std::uint32_t> order = detail::data::shuffled_indices(2, 0, 50);
  drawn data;
  for (const std::size_t k : {15u, 12u, 18u, 13u}) data.unreadable.push_back(order[k]);
  for (const int threads : {1, 2, 8}) {
    loader feed{data,
                rank_stub{},
                {.global_batch = 10, .seed = 2, .decode_threads = threads, .prefetch = 3}};
    feed.next();
    for (int attempt = 0; attempt < 3; ++attempt) {
      CHECK(contains_all(message_of<error>([&] { feed.next(); }),
                         {concat("example ", order[12], " cannot be read")}));
      CHECK(feed.step() == 1);
    }
    feed.seek(2);
    CHECK(feed.next()[0].count == 10);
  }
}

TEST_CASE("by default several threads read what is drawn at random, one what is not") {
  const cpu::worker_limit cores(3);
  const loader drawn_feed{drawn{}, rank_stub{}, {.global_batch = 10}};
  CHECK(drawn_feed.decode_threads() == 3);
  CHECK(drawn_feed.prefetch() == 2);
  const loader numbered_feed{numbered{}, rank_stub{}, {.global_batch = 10}};
  CHECK(numbered_feed.decode_threads() == 1);
  CHECK(numbered_feed.prefetch() == 1);
  for (const loader_options& wrong : {loader_options{.global_batch = 10, .decode_threads = -1},
                                      loader_options{.global_batch = 10, .decode_threads = 2000},
                                      loader_options{.global_batch = 10, .prefetch = -1},
                                      loader_options{.global_batch = 10, .prefetch = 8}})
    CHECK_THROWS_AS((loader{numbered{}, rank_stub{}, wrong}), usage_error);
}

TEST_CASE("statistics count what was taken, and describe_input says who reads what") {
  loader feed{ordered{},
              rank_stub{1, 2},
              {.global_batch = 20, .decode_threads = 2, .prefetch = 3},
              pad_crop_flip{.flip = true}};
  for (int k = 0; k < 5; ++k) feed.next();
  const input_statistics s = feed.statistics();
  CHECK(s.updates == 5);
  CHECK(s.samples >= 50);  // some are made ahead
  CHECK(s.samples <= 80);
  CHECK(s.threads == 2);
  CHECK(s.waited <= s.elapsed);
  CHECK(s.augment <= s.busy);
  CHECK(s.reading.decode == 2);
  // 10 samples of 4 bytes, of 4 updates.
  CHECK(feed.describe_input() ==
        "rank 1 of 2 reads slice 1 of each update of 20 samples, in an order that is a function of "
        "(seed, epoch); 2 threads, 3 updates ahead, 160 bytes; random horizontal flip; "
        "batches continue across epochs; seed 0");
}

TEST_CASE("parts of a split keep the data set's order, labels and random draws") {
  const auto [training, held_out] = split(ordered{}, 0.3, 1);
  static_assert(detail::data::DrawnAtRandom<decltype(training)>);
  std::vector<int> seen(50);
  for (const auto* part : {&training, &held_out}) {
    const auto order = part->order(2, 5);
    REQUIRE(order.size() == part->size());
    std::vector<std::size_t> in_whole;
    for (const std::uint32_t k : order) in_whole.push_back(part->indices()[k]);
    for (const std::size_t i : in_whole) ++seen[i];
    const auto whole = ordered{}.order(2, 5);
    CHECK(std::is_sorted(in_whole.begin(), in_whole.end(), [&](std::size_t a, std::size_t b) {
      return std::find(whole.begin(), whole.end(), a) < std::find(whole.begin(), whole.end(), b);
    }));
    CHECK(part->label(3) == static_cast<int>(part->indices()[3] % 7));
    std::vector<std::uint8_t> a(4), b(4);
    const random_sequence random(1, purpose::test, 0, 0);
    part->read(3, a, random);
    ordered{}.read(part->indices()[3], b, random);
    CHECK(a == b);
  }
  CHECK(std::count(seen.begin(), seen.end(), 1) == 50);
}
