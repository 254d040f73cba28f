// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/data/horizontal_flip.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/best.hpp>
#include <cordee/train/callbacks/chrome_trace.hpp>
#include <cordee/train/callbacks/early_stopping.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/differing_rank.hpp"
#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class F>
void fit_with(threads comm, F& feed, double epochs, double late_rate = 0.05) {
  quadratic<fp64> model;
  trainer run{model, sgd{}, [=](double epoch) { return epoch < 0.75 ? 0.05 : late_rate; },
              ring{comm}};
  run.fit(feed, epochs);
}

}  // namespace

TEST_CASE("same_loaders: equal settings pass") {
  CHECK(refusal([](threads comm, bool) {
          loader feed{toy_data{}, comm, {.global_batch = 6, .seed = 1}};
          fit_with(comm, feed, 2);
          fit_with(comm, feed, 4);
        }).empty());
}

TEST_CASE("same_loaders: a schedule that differs later is named by fit, also by its last bit") {
  for (const double late : {0.1, std::nextafter(0.05, 1)})
    CHECK(contains(refusal([&](threads comm, bool odd) {
                     toy_loader feed{.rank_count = 3};
                     fit_with(comm, feed, 1, odd ? late : 0.05);
                   }),
                   "fit: the learning rate at epoch 0.9 differs"));
}

TEST_CASE("same_loaders: seed, data, batch, length and position of the loader") {
  struct changes {
    std::size_t samples = 21;
    loader_options options{.global_batch = 6, .seed = 1};
    double epochs = 1;
    std::int64_t first = 0;
  };
  const auto loaded = [](const changes& other) {
    return refusal([&](threads comm, bool odd) {
      const changes c = odd ? other : changes{};
      loader feed{toy_data{c.samples}, comm, c.options};
      feed.seek(c.first);
      fit_with(comm, feed, c.epochs);
    });
  };
  CHECK(loaded({}).empty());
  CHECK(loaded({.options = {.global_batch = 6, .seed = 2}}) ==
        "fit: the seed of the loader differs: rank 0 has 1, rank 2 has 2: give every rank the "
        "same");
  CHECK(contains(loaded({.samples = 22}),
                 "fit: the number of samples differs: rank 0 has 21, rank 2 has 22"));
  CHECK(contains(loaded({.options = {.global_batch = 9, .seed = 1}}),
                 "the global batch differs: rank 0 has 6, rank 2 has 9"));
  CHECK(contains(loaded({.options = {.global_batch = 6, .accumulate = 2, .seed = 1}}),
                 "the number of micro-batches differs"));
  CHECK(contains(loaded({.options = {.global_batch = 6, .seed = 1, .last_batch = last_batch::pad}}),
                 "the loader differs: rank 0 has ... batches continue across epochs"));
  CHECK(
      contains(loaded({.epochs = 2}), "the number of epochs differs: rank 0 has 1, rank 2 has 2"));
  CHECK(contains(loaded({.first = 1}), "the number of the first update differs"));
}

TEST_CASE("same_loaders: the augmentation, by every digit") {
  const auto flipped = [](double probability) {
    return refusal([=](threads comm, bool odd) {
      loader feed{toy_data{},
                  comm,
                  {.global_batch = 6, .seed = 1},
                  horizontal_flip{odd ? probability : 0.5}};
      const auto own = detail::train::loader_settings(feed, constant{0.1}, 1);
      detail::train::expect_same_settings(comm, own, "fit");
    });
  };
  CHECK(flipped(0.5).empty());
  CHECK(flipped(0) ==
        "fit: the augmentation differs: rank 0 has random horizontal flip, probability 0.5, rank 2 "
        "has none: give every rank the same");
  CHECK(contains(flipped(0.5000001), "rank 2 has random horizontal flip, probability 0.5000001"));
}

TEST_CASE("same_loaders: a callback's settings that decide when the run ends") {
  const auto stopped = [](int patience) {
    return refusal([=](threads comm, bool odd) {
      toy_loader feed{.rank_count = 3};
      detail::train::expect_same_loaders(comm, feed, constant{0.1}, 1,
                                         early_stopping{.patience = odd ? patience : 5});
    });
  };
  CHECK(stopped(5).empty());
  CHECK(contains(stopped(6),
                 "fit: a callback of fit differs: rank 0 has early_stopping, .patience 5, "));
  const auto differs = [](const auto& first, const auto& other) {
    return refusal([&](threads comm, bool odd) {
      toy_loader feed{.rank_count = 3};
      detail::train::expect_same_loaders(comm, feed, constant{0.1}, 1, odd ? other : first);
    });
  };
  CHECK(differs(best{"a"}, best{"b"}).empty());  // rank 0's path counts
  CHECK(contains(differs(best{"a"}, best{"a", validation_measure::loss}),
                 "rank 0 has best, .measure accuracy, "));
  CHECK(contains(differs(chrome_trace{"a"}, chrome_trace{"a", 7}),
                 "rank 0 has chrome_trace, .steps 100, .skip 0, "));
}
