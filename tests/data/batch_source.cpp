// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/data/batch_source.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/custom_model.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/input/feed.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

struct place {
  int own = 0, ranks = 1;
  [[nodiscard]] int rank() const { return own; }
  [[nodiscard]] int size() const { return ranks; }
};

using indices = std::vector<std::uint32_t>;
constexpr auto as_data = [](const sample_indices& s) {
  return indices(s.samples.begin(), s.samples.end());
};
using source = batch_source<decltype(as_data)>;

static_assert(detail::train::Feed<source> && !detail::train::ImageFeed<source>);

/// The samples of an update, over all ranks and micro-batches, in order.
indices update_of(std::size_t samples, int ranks, const loader_options& o, std::int64_t step) {
  indices all;
  for (int rank = 0; rank < ranks; ++rank) {
    source feed(samples, place{rank, ranks}, o, as_data);
    feed.seek(step);
    for (const auto& b : feed.next()) {
      CHECK(b.count == static_cast<int>(b.data->size()));
      CHECK(b.ranks == ranks);
      CHECK(b.first_sample == static_cast<std::int64_t>(all.size()));
      all.insert(all.end(), b.data->begin(), b.data->end());
    }
  }
  return all;
}

}  // namespace

TEST_CASE("batch_source: an epoch has each sample once, whatever ranks and micro-batches are") {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const int accumulate : {1, 2, 3}) {
      CAPTURE(ranks);
      CAPTURE(accumulate);
      const loader_options o{.global_batch = 30, .accumulate = accumulate, .seed = 5};
      indices epoch;
      for (std::int64_t k = 0; k < 4; ++k) {
        const indices update = update_of(120, ranks, o, k);
        CHECK(update == update_of(120, 1, {.global_batch = 30, .seed = 5}, k));
        epoch.insert(epoch.end(), update.begin(), update.end());
      }
      std::sort(epoch.begin(), epoch.end());
      for (std::uint32_t i = 0; i < 120; ++i) REQUIRE(epoch[i] == i);
    }
  CHECK(update_of(120, 1, {.global_batch = 30, .seed = 5}, 0) !=
        update_of(120, 1, {.global_batch = 30, .seed = 6}, 0));
}

TEST_CASE("batch_source: updates and epochs are those of a loader of images") {
  for (const auto end : {last_batch::carry, last_batch::pad, last_batch::drop}) {
    const loader_options o{.global_batch = 32, .seed = 1, .last_batch = end};
    source feed(1000, place{1, 3}, o, as_data);
    loader images{synthetic{.extent = {1, 2, 2}, .samples = 1000}, place{1, 3}, o};
    CHECK(feed.samples() == images.samples());
    CHECK(feed.global_batch() == images.global_batch());
    for (const std::int64_t k : {0, 5, 31, 32, 400}) {
      CHECK(feed.epoch(k) == images.epoch(k));
      feed.seek(k);
      images.seek(k);
      const auto own = feed.next();
      const auto other = images.next();
      REQUIRE(own.size() == other.size());
      CHECK(own[0].count == other[0].count);
      CHECK(own[0].global_samples == other[0].global_samples);
      CHECK(own[0].first_sample == other[0].first_sample);
    }
    CHECK(feed.steps(2.5) == images.steps(2.5));
  }
}

TEST_CASE("batch_source: two updates are valid at a time") {
  source feed(100, place{}, {.global_batch = 10, .seed = 3}, as_data);
  const auto first = feed.next();
  const indices before = *first[0].data;
  (void)feed.next();
  CHECK(*first[0].data == before);
}

TEST_CASE("batch_source: wrong options are refused") {
  const auto message = [](std::size_t samples, const loader_options& o) {
    return error_message([&] { source(samples, place{}, o, as_data); });
  };
  const auto contains = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  contains(message(10, {}), "set either .global_batch or .micro_batch");
  contains(message(10, {.global_batch = 2, .micro_batch = 2}), "set either");
  contains(message(10, {.global_batch = 2, .accumulate = 0}), ".accumulate");
  contains(message(10, {.global_batch = 2, .prefetch = 1}), "leave .decode_threads");
  contains(message(0, {.global_batch = 2}), "the data set is empty");
  contains(message(3, {.global_batch = 4, .last_batch = last_batch::drop}), "last_batch");
}

TEST_CASE("batch_source: fit trains a model of your own, and a second fit continues") {
  const auto weights_after = [](int ranks, bool twice) {
    return on_ranks(ranks, [&](threads comm) {
      parameter_list list;
      list.add("mean", {1});
      custom_model<indices, fp64> model{list, [](const indices& x, model_pass<double, cpu>& pass) {
                                          metrics sums{.count = static_cast<int>(x.size())};
                                          for (const std::uint32_t i : x) {
                                            const double off = pass.weights(0)[0] - i;
                                            sums.loss += off * off / 2;
                                            if (pass.trains())
                                              pass.gradient(0)[0] += pass.loss_weight() * off;
                                          }
                                          return sums;
                                        }};
      source feed(60, comm, {.global_batch = 12, .accumulate = 2, .seed = 9}, as_data);
      trainer run{model, sgd{.momentum = 0.5}, constant{.learning_rate = 0.1}, ring{comm}};
      const std::vector<indices> held_out{{20, 21}, {22}};
      const auto count = [](const indices& x) { return x.size(); };
      if (twice) run.fit(feed, 1);
      const auto done = run.fit(feed, 3, batch_validation{held_out, count});
      CHECK(done.last.validation->count == 3 * ranks);
      return copy(run.weights());
    });
  };
  const auto one = weights_after(1, false);
  CHECK(one[0][0] == doctest::Approx(29.5).epsilon(0.2));
  for (const int ranks : {2, 3, 4})
    for (const auto& weights : weights_after(ranks, ranks == 3))
      CHECK(close(weights[0], one[0][0], 1e-12));
}
