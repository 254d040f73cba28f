// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/topologies/fixed.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/data/pad_crop_flip.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/callbacks/recalibration.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr extent pixel{1, 1, 1};
// Its first batch norm's input is the images, whatever the weights.
using small = network<sequential<batch_norm<>, linear<2>>, fp64, cpu, reference, pixel, 2>;

// Of which one image has two values, as many as a variance needs.
constexpr extent pixel_pair{1, 1, 2};
using small_of_pairs = network<sequential<batch_norm<>, global_average_pool, linear<2>>, fp64, cpu,
                               reference, pixel_pair, 2>;

/// One pixel for each image, or two.
struct pixels {
  std::vector<std::uint8_t> values;
  extent shape = pixel;

  [[nodiscard]] extent image() const { return shape; }
  [[nodiscard]] int classes() const { return 2; }
  [[nodiscard]] std::size_t size() const { return values.size() / shape.size(); }
  int read(std::size_t i, std::span<std::uint8_t> to) const {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(i * to.size()), to.size(), to.begin());
    return static_cast<int>(i % 2);
  }
};
// In units of a byte.
constexpr normalize bytes_as_they_are{.mean = {}, .deviation = {1 / 255.0}};

/// The three samples of the golden vector that rank r has, as one micro-batch.
batch<cpu> golden_batch(int rank, int ranks) {
  static constexpr std::array<std::array<std::uint8_t, 3>, 2> x{{{1, 2, 4}, {0, 5, 6}}};
  static constexpr std::array<std::int32_t, 3> labels{};
  return {.pixels = {x[static_cast<std::size_t>(rank % 2)].data(), 3},
          .labels = {labels.data(), 3},
          .count = 3,
          .global_samples = 3 * ranks,
          .ranks = ranks,
          .normalization = {.mean = {}, .scale = {255}}};
}

template <class Run>
std::array<double, 2> statistics(Run& run) {
  return {run.weights("bn1.running_mean")[0], run.weights("bn1.running_var")[0]};
}

struct watch {  // a callback after recalibration
  double expected;
  int calls = 0;
  template <class Run>
  void begin_validation_on_all_ranks(Run& run) {
    ++calls;
    CHECK(close(run.weights("bn1.running_mean")[0], expected, 1e-13));
  }
};

}  // namespace

TEST_CASE("without moving averages statistics are the last batch's: golden values of two ranks") {
  on_ranks(2, [](threads comm) {
    small model;
    model.batch_norm_moving_average = false;
    trainer run{model, sgd{}, constant{.learning_rate = 0.1}, ring{comm}};
    batch<cpu> other = golden_batch(comm.rank() + 1, 2);
    run.step(std::span(&other, 1), 0);
    const batch<cpu> last = golden_batch(comm.rank(), 2);
    run.step(std::span(&last, 1), 0);
    const auto own = statistics(run);
    CHECK(close(own[0], comm.rank() == 0 ? 7.0 / 3 : 11.0 / 3, 1e-10));
    CHECK(close(own[1], comm.rank() == 0 ? 14.0 / 9 : 62.0 / 9, 1e-10));
    run.with_mean_model([&] {  // what evaluation uses: the mean of the variances
      CHECK(close(statistics(run)[0], 3, 1e-10));
      CHECK(close(statistics(run)[1], 38.0 / 9, 1e-10));
      return 0;
    });
    pool_statistics(run);
    CHECK(close(statistics(run)[0], 3, 1e-10));
    CHECK(close(statistics(run)[1], 14.0 / 3, 1e-10));  // of all six samples
    return 0;
  });
}

TEST_CASE("recalibrate: statistics are the training set's, however it is cut") {
  pixels data{.values = {}, .shape = pixel_pair};
  for (int i = 0; i < 96; ++i) data.values.push_back(static_cast<std::uint8_t>(i * i % 97));
  double mean = 0, variance = 0;
  for (const auto x : data.values) mean += x / 96.0;
  for (const auto x : data.values) variance += (x - mean) * (x - mean) / 96.0;
  for (const int ranks : {1, 3, 4})
    for (const int accumulate : {1, 2}) {
      CAPTURE(ranks);
      on_ranks(ranks, [&](threads comm) {
        // Ranks have different shares of an update's two
        // micro-batches of three samples; one of four has none.
        loader feed{data,
                    comm,
                    {.global_batch = 6, .accumulate = accumulate, .seed = 5},
                    pad_crop_flip{},
                    bytes_as_they_are};
        small_of_pairs model;
        trainer run{model, sgd{}, constant{.learning_rate = 0.1}, ring{comm}};
        const std::vector<double> before(run.weights().begin(), run.weights().end());
        recalibrate(run, feed, 8);
        // 96 numbers below 97: a sum's rounding is 96 epsilon of it.
        CHECK(close(statistics(run)[0], mean, 1e-13));
        CHECK(close(statistics(run)[1], variance, 1e-13));
        CHECK(model.batch_norm_moving_average);
        const std::size_t trained = run.weights().size - run.statistics().size;
        CHECK(std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(trained),
                         run.weights().begin()));
        return 0;
      });
    }
}

TEST_CASE("recalibrate: of ranks whose weights differ, those of the mean model") {
  using deep =
      network<sequential<linear<3>, batch_norm<>, linear<2>>, fp64, cpu, reference, pixel, 2>;
  pixels data{.values = {}};
  for (int i = 0; i < 24; ++i) data.values.push_back(static_cast<std::uint8_t>(i * i % 23));
  on_ranks(3, [&](threads comm) {
    loader feed{data, comm, {.global_batch = 6}, pad_crop_flip{}, bytes_as_they_are};
    deep model;
    trainer run{model, decentlam{}, constant{.learning_rate = 0.1},
                gossip{comm, topologies::ring{}}};
    for (double& w : run.weights("fc.weight")) w = comm.rank();  // their mean is 1
    recalibrate(run, feed, 4);
    double mean = 0, variance = 0;  // of the images
    for (const auto x : data.values) mean += x / 24.0;
    for (const auto x : data.values) variance += (x - mean) * (x - mean) / 24.0;
    for (std::size_t c = 0; c < 3; ++c) {
      CHECK(close(run.weights("bn1.running_mean")[c], mean, 1e-13));
      CHECK(close(run.weights("bn1.running_var")[c], variance, 1e-13));
    }
    CHECK(run.weights("fc.weight")[0] == comm.rank());
    return 0;
  });
}

TEST_CASE("recalibration: fit's validation uses the statistics of the training set") {
  pixels data{.values = {}};
  for (int i = 0; i < 24; ++i) data.values.push_back(static_cast<std::uint8_t>(i * i % 23));
  const double mean = std::accumulate(data.values.begin(), data.values.end(), 0.0) / 24;
  for (const double freeze_at : {HUGE_VAL, 0.5})
    on_ranks(3, [&](threads comm) {
      loader feed{data, comm, {.global_batch = 6}, pad_crop_flip{}, bytes_as_they_are};
      loader sample{data, comm, {.global_batch = 6}, pad_crop_flip{}, bytes_as_they_are};
      small model;
      model.freeze_batch_norm_at = freeze_at;
      trainer run{model, sgd{}, constant{.learning_rate = 0.01}, ring{comm}};
      if (freeze_at < 1) {
        recalibration never{sample, 4};
        run.fit(feed, 2, never, validation{data});
        CHECK(sample.step() == 0);
        return 0;
      }
      watch after{mean};
      run.fit(feed, 2, recalibration{sample, 4}, after, validation{data});
      CHECK(after.calls == 2);
      CHECK(sample.step() == 8);
      return 0;
    });
}

TEST_CASE("recalibrate: no update on one rank ends it on every rank") {
  pixels data{.values = {1, 2, 3, 4}};
  CHECK(contains(error_at_peer([&](threads comm) {
                   loader feed{data, comm, {.global_batch = 2}};
                   small model;
                   trainer run{model, sgd{}, constant{}, ring{comm}};
                   recalibrate(run, feed, comm.rank());
                 }),
                 "recalibrate: statistics need at least one update"));
}

TEST_CASE("recalibration: what recalibrate would refuse ends fit before the first step") {
  const pixels data{.values = {1, 2, 3, 4}}, pairs{.values = {1, 2, 3, 4}, .shape = pixel_pair};
  const normalize other{.mean = {}, .deviation = {2 / 255.0}};
  const auto message = [&](int updates, const pixels& of, const normalize& norm) {
    std::string text;
    (void)error_message([&] {
      on_ranks(1, [&](threads comm) {
        loader feed{data, comm, {.global_batch = 2}, pad_crop_flip{}, bytes_as_they_are};
        loader sample{of, comm, {.global_batch = 2}, pad_crop_flip{}, norm};
        small model;
        trainer run{model, sgd{}, constant{.learning_rate = 0.01}, ring{comm}};
        watch after{0};
        text = error_message([&] {
          run.fit(feed, 1, recalibration{sample, updates}, after, validation{data});
        });
        CHECK(run.steps_taken() == 0);
        return 0;
      });
    });
    return text;
  };
  CHECK(contains(message(0, data, bytes_as_they_are),
                 "recalibrate: statistics need at least one update"));
  CHECK(contains(message(1, pairs, bytes_as_they_are),
                 "the loader of recalibrate has images of 1x1x2 in 2 classes"));
  CHECK(contains(message(1, data, other), "recalibrate: the loader"));
}

TEST_CASE("recalibration: a fit without a validation refuses it") {
  const pixels data{.values = {1, 2, 3, 4}};
  CHECK(contains(error_message([&] {
                   on_ranks(1, [&](threads comm) {
                     loader feed{data, comm, {.global_batch = 2}};
                     loader sample{data, comm, {.global_batch = 2}};
                     small model;
                     trainer run{model, sgd{}, constant{.learning_rate = 0.01}, ring{comm}};
                     run.fit(feed, 1, recalibration{sample, 1});
                     return 0;
                   });
                 }),
                 "recalibration: there is no validation to recalibrate for"));
}
