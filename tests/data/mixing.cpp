// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/cutmix.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/mixing.hpp>
#include <cordee/data/mixup.hpp>

#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace support;

namespace {

struct mixed_sample {
  std::vector<int> pixels;
  int label, other_label;
  float weight;
  bool operator==(const mixed_sample&) const = default;
};

template <class M>
std::vector<mixed_sample> sequence(int ranks, loader_options options, const M& mixing, int steps) {
  std::vector<std::vector<mixed_sample>> updates(static_cast<std::size_t>(steps));
  for (int r = 0; r < ranks; ++r) {
    loader feed{numbered{}, rank_stub{r, ranks}, options, pad_crop_flip{}, normalize{}, mixing};
    for (auto& update : updates)
      for (const batch<cpu>& b : feed.next()) {
        REQUIRE(b.other_labels.size == b.labels.size);
        REQUIRE(b.label_weights.size == b.labels.size);
        for (std::size_t i = 0; i < b.labels.size; ++i)
          update.push_back({{b.pixels[2 * i], b.pixels[2 * i + 1]},
                            b.labels[i],
                            b.other_labels[i],
                            b.label_weights[i]});
      }
  }
  std::vector<mixed_sample> all;
  for (const auto& update : updates) all.insert(all.end(), update.begin(), update.end());
  return all;
}

/// Exchanges the images; the weight is the second number of the update's sequence.
struct exchanged {
  static constexpr bool active() { return true; }
  float operator()(const extent&, std::span<std::uint8_t> a, std::span<std::uint8_t> b,
                   random_sequence random) const {
    std::swap_ranges(a.begin(), a.end(), b.begin());
    (void)random.uniform();
    return static_cast<float>(random.uniform());
  }
  static std::string describe() { return "exchanged"; }
};

}  // namespace

TEST_CASE(
    "mixing: pairs are samples 2 j and 2 j + 1 of the update, the last of an odd number alone") {
  for (const std::int64_t n : {1, 2, 7, 12}) {
    CAPTURE(n);
    const loader_options options{.global_batch = n, .seed = 3};
    loader plain{numbered{}, rank_stub{}, options};
    const auto mixed = sequence(1, options, exchanged{}, 3);
    for (std::size_t step = 0; step < 3; ++step) {
      const std::vector<int> samples = samples_of(plain.next());
      CHECK(plain.statistics().updates == static_cast<std::int64_t>(step) + 1);
      random_sequence random(3, purpose::mixing, 0, step);
      (void)random.uniform();
      const auto weight = static_cast<float>(random.uniform());
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const std::size_t partner = (i ^ 1) < samples.size() ? i ^ 1 : i;
        const mixed_sample& m = mixed[step * samples.size() + i];
        CHECK(m.label == samples[i] % 7);
        CHECK(m.other_label == samples[partner] % 7);
        CHECK(m.weight == (partner == i ? 1 : weight));
        CHECK(m.pixels[0] == samples[partner] % 256);
      }
    }
  }
}

TEST_CASE("mixing: the sequence of mixed samples does not depend on ranks or accumulation") {
  for (const std::int64_t n : {1, 7, 12, 50})
    for (const int ranks : world_sizes)
      for (const int accumulate : {1, 3}) {
        CAPTURE(n);
        CAPTURE(ranks);
        CAPTURE(accumulate);
        const loader_options one{.global_batch = n, .seed = 3},
            many{.global_batch = n, .accumulate = accumulate, .seed = 3};
        CHECK(sequence(1, one, mixup{1}, 5) == sequence(ranks, many, mixup{1}, 5));
        CHECK(sequence(1, one, cutmix{}, 5) == sequence(ranks, many, cutmix{}, 5));
      }
}

TEST_CASE("mixing: without it a batch has no other labels") {
  loader feed{numbered{}, rank_stub{}, {.global_batch = 6}, pad_crop_flip{}, normalize{}, mixup{0}};
  for (const batch<cpu>& b : feed.next())
    CHECK((b.other_labels.empty() && b.label_weights.empty()));
  CHECK(feed.describe().find("mix") == std::string::npos);
}

TEST_CASE("mixing: the loader's description names it; a wrong alpha is refused at construction") {
  const loader feed{numbered{},      rank_stub{}, {.global_batch = 6},
                    pad_crop_flip{}, normalize{}, mixup{0.3}};
  CHECK(feed.describe().find("mixup of pairs, alpha 0.3") != std::string::npos);
  CHECK_THROWS_AS(
      loader(numbered{}, rank_stub{}, {.global_batch = 6}, pad_crop_flip{}, normalize{}, mixup{-1}),
      usage_error);
}
