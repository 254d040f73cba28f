// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/infer/quantize_network.hpp>
#include <cordee/ops/entropy_range.hpp>
#include <cordee/ops/histogram.hpp>
#include <cordee/ops/mean_squared_error_range.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/infer/quantized_by_hand.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace support;

namespace {

/// A network of one rank after some epochs.
struct trained_network {
  explicit trained_network(int epochs, double momentum = 0)
      : run{net, sgd{.momentum = momentum}, steady, solo{}} {
    auto feed = feed_of(self_comm{});
    run.fit(feed, epochs);
  }
  /// The integer network by the first batches of a feed, and the report.
  auto quantized(const quantize_network_options& o, int batches = 3) {
    auto feed = feed_of(self_comm{});
    return quantize_network(run, feed, batches, o, data);
  }
  quantization_report report(const quantize_network_options& o, int batches = 3) {
    return quantized(o, batches).second;
  }

  small_fp32 net;
  decltype(trainer{std::declval<small_fp32&>(), sgd{}, steady, solo{}}) run;
};

/// The range of one layer is a hundredth of its extremes.
struct one_narrow_range {
  std::size_t narrow;
  mutable std::size_t layer = 0;
  detail::ops::real_range choose(std::span<const double>,
                                 const detail::ops::real_range& extremes) const {
    const float share = layer++ == narrow ? 0.01F : 1;
    return {extremes.low * share, extremes.high * share};
  }
};

/// Nothing beyond the percentile 100, by the histogram.
struct all_of_histogram {
  detail::ops::real_range choose(std::span<const double> counts,
                                 const detail::ops::real_range& extremes) const {
    return detail::ops::percentile_range(counts, extremes, 100);
  }
};

}  // namespace

TEST_CASE("quantize_network is calibration of the network in int8, for any number of ranks") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const auto results = on_ranks(ranks, [](threads comm) {
      small_fp32 net;
      trainer run{net, sgd{}, steady, ring{comm}};
      auto feed = feed_of(comm);
      run.fit(feed, 2);
      const std::vector<float> before(run.weights().begin(), run.weights().end());
      std::vector<std::vector<std::int32_t>> all;
      for (const bool option : {false, true}) {
        const quantize_network_options o{.equalize_layers = option, .correct_bias = option};
        all.push_back(quantized_logits(run, o));
        CHECK(std::equal(before.begin(), before.end(), run.weights().begin()));
        CHECK(all.back() == logits_by_hand(run, o));
      }
      CHECK(all[0] != all[1]);
      return std::pair(all, describe(quantize_network(run, feed, 1, {}, data).second));
    });
    for (const auto& of_rank : results) CHECK(of_rank == results[0]);
  }
}

TEST_CASE("quantize_network: each option, and each set of them, is the function of its name") {
  trained_network trained(2);
  std::vector<std::vector<std::int32_t>> all;
  const auto compare = [&](quantize_network_options o, const auto&... range) {
    // All sets of the options on extremes; on the other ranges none of them and all.
    const std::vector<int> sets =
        all.empty() ? std::vector{0, 1, 2, 3, 4, 5, 6, 7} : std::vector{0, 7};
    for (const int bits : sets) {
      CAPTURE(bits);
      o.equalize_layers = (bits & 1) != 0;
      o.correct_bias = (bits & 2) != 0;
      o.fold_batch_norm = (bits & 4) == 0;
      all.push_back(quantized_logits(trained.run, o));
      CHECK(all.back() == logits_by_hand(trained.run, o, range...));
    }
  };
  compare({});
  compare({.percentile = 98});
  compare({.range = mean_squared_error_range{}}, mean_squared_error_range{});
  compare({.range = entropy_range{}}, entropy_range{});
  const std::set different(all.begin(), all.end());
  CHECK(different.size() == all.size());  // no option is without effect
}

TEST_CASE("quantize_network: the percentile 100 is minimum and maximum, to the bit") {
  trained_network trained(2);
  const auto extremes = trained.report({}),
             histogram = trained.report({.range = all_of_histogram{}}),
             percentile = trained.report({.percentile = 100}),
             clipped = trained.report({.percentile = 99});
  for (std::size_t k = 0; k < extremes.layers.size(); ++k) {
    const auto& wanted = extremes.layers[k];
    CHECK(wanted.saturation == 0);
    for (const auto* other : {&histogram, &percentile}) {
      CHECK(other->layers[k].low == wanted.low);
      CHECK(other->layers[k].high == wanted.high);
    }
    CHECK(clipped.layers[k].high < wanted.high);
    CHECK(clipped.layers[k].saturation > 0);
  }
  CHECK(histogram.int8.loss == extremes.int8.loss);
}

TEST_CASE("quantize_network: equalized, networks of the same fp32 function have the same bytes") {
  trained_network trained(2);
  auto& run = trained.run;
  const auto quantized = [&](bool equalize) {
    auto [integers, report] = trained.quantized({.equalize_layers = equalize});
    return std::pair(logits_of(integers), std::move(report));
  };
  const auto plain = quantized(false), equalized = quantized(true);
  // The function stays: products and sums of seven layers, rounded otherwise.
  CHECK(equalized.second.fp32.mean_loss() ==
        doctest::Approx(plain.second.fp32.mean_loss()).epsilon(1e-5));
  CHECK(equalized.second.fp32.loss != plain.second.fp32.loss);

  // Scales of channels by powers of two: all numbers of fp32 but the channels' are the same.
  for (const std::size_t c : {0U, 1U, 3U, 7U, 15U}) {
    const float scale = c % 2 == 0 ? 32 : 1.0F / 16;
    run.weights("layer1.0.bn1.weight")[c] *= scale;
    run.weights("layer1.0.bn1.bias")[c] *= scale;
    for (std::size_t k = 0; k < 16; ++k)
      for (std::size_t t = 0; t < 9; ++t)
        run.weights("layer1.0.conv2.weight")[(k * 16 + c) * 9 + t] /= scale;
  }
  run.adopt_weights();
  const auto unequal = quantized(false), again = quantized(true);
  CHECK(unequal.second.fp32.loss == plain.second.fp32.loss);
  CHECK(unequal.first != plain.first);
  REQUIRE(unequal.second.layers[2].name == "layer1.0.conv2");
  CHECK(unequal.second.layers[2].error > 4 * plain.second.layers[2].error);
  CHECK(again.first == equalized.first);
  CHECK(again.second.int8.loss == equalized.second.int8.loss);
}

TEST_CASE("quantize_network: bias correction takes the mean error out of every channel") {
  constexpr int channels = 4;
  using network_type = network<
      sequential<convolution<channels, 3>, batch_norm<relu>, global_average_pool, linear<channels>>,
      fp32, cpu, direct, extent{1, 8, 8}, channels>;
  const synthetic samples{{1, 8, 8}, {channels}, 24, 1};
  network_type net;
  trainer run{net, sgd{}, steady, solo{}};
  // Logits are the means of channels, far from the ReLU's zero; all weights but the largest of a
  // filter are rounded to zero, with both signs of error.
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t t = 0; t < 9; ++t)
      run.weights("conv1.weight")[9 * c + t] = t == 4 ? 1.0F : c % 2 == 0 ? 0.0035F : -0.0035F;
    run.weights("bn1.weight")[c] = 1;
    run.weights("bn1.bias")[c] = 8;
    for (std::size_t k = 0; k < channels; ++k)
      run.weights("fc.weight")[c * channels + k] = c == k ? 1.0F : 0.0F;
    run.weights("fc.bias")[c] = 0;
  }
  run.adopt_weights();
  std::vector<std::uint8_t> pixels(samples.size() * 64);
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples.read(i, std::span(pixels).subspan(i * 64, 64));
  const auto errors = [&](bool correct) {  // of each channel, mean over the calibration's images
    loader feed{samples, self_comm{}, {.global_batch = 24, .seed = 1}};
    integer_network integers = quantize_network(run, feed, 1, {.correct_bias = correct});
    run.evaluate(samples, feed.normalization());
    const auto exact = net.logits();  // (samples, channels)
    REQUIRE(exact.size == 24 * channels);
    std::vector<std::int32_t> logits(exact.size);
    integers.run(pixels, logits);
    std::vector<double> mean(channels);
    for (std::size_t i = 0; i < exact.size; ++i)
      mean[i % channels] +=
          (integers.logit_step() * logits[i] - static_cast<double>(exact[i])) / 24;
    return mean;
  };
  const auto before = errors(false), after = errors(true);
  for (std::size_t c = 0; c < channels; ++c) {
    CAPTURE(c);
    CHECK(std::abs(before[c]) > 0.005);
    CHECK(std::abs(after[c]) < std::abs(before[c]) / 20);
  }
}

TEST_CASE("quantize_network: the report names the layer whose range was damaged") {
  trained_network trained(10, 0.9);
  const metrics wanted = trained.run.evaluate(data, feed_of(self_comm{}).normalization());
  for (const std::size_t damaged : {0u, 3u, 6u}) {
    CAPTURE(damaged);
    const auto report_of = [&](bool correct) {
      return trained.report({.range = one_narrow_range{.narrow = damaged}, .correct_bias = correct},
                            4);
    };
    const quantization_report report = report_of(false);
    REQUIRE(report.layers.size() == 7);
    CHECK(report.costliest() == damaged);
    CHECK(describe(report).find(report.layers[damaged].name + " costs most") != std::string::npos);
    for (std::size_t k = 0; k < 7; ++k) {
      CHECK((report.layers[k].saturation > 0) == (k == damaged));
      CHECK((report.layers[k].error > 0.1) == (k == damaged));
    }
    // The engines of fp32 differ (winograd, direct), so sums are rounded in another order.
    CHECK(report.fp32.mean_loss() == doctest::Approx(wanted.mean_loss()).epsilon(1e-3));
    CHECK(report.fp32.accuracy() == wanted.accuracy());
    CHECK(report.int8.mean_loss() > report.fp32.mean_loss());
    if (damaged != 3) continue;
    // Corrected biases are those of int8.
    const quantization_report corrected = report_of(true);
    CHECK(corrected.fp32.loss == report.fp32.loss);
    CHECK(corrected.single[damaged].loss == report.single[damaged].loss);
    CHECK(corrected.int8.loss != report.int8.loss);
  }
}

TEST_CASE("quantize_network: options without meaning are refused") {
  small_fp32 net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(self_comm{});
  for (const double percentile : {50.0, 100.5, -1.0, std::nan("")})
    CHECK_THROWS_WITH_AS((void)quantize_network(run, feed, 1, {.percentile = percentile}),
                         doctest::Contains(".percentile is above 50 and at most 100"), usage_error);
  CHECK_THROWS_WITH_AS(
      (void)quantize_network(run, feed, 1, {.percentile = 99, .range = entropy_range{}}),
      doctest::Contains(".percentile and .range are two choices"), usage_error);
}

TEST_CASE("quantize_network: options without meaning on one rank end it on every rank") {
  CHECK(contains(error_at_peer([](threads comm) {
                   small_fp32 net;
                   trainer run{net, sgd{}, steady, ring{comm}};
                   auto feed = feed_of(comm);
                   (void)quantize_network(run, feed, 1, {.percentile = 50.0 + comm.rank()});
                 }),
                 ".percentile is above 50 and at most 100"));
}

TEST_CASE("quantize_network: weights that are not finite are refused, all-zero filters are not") {
  trained_network trained(1);
  auto& run = trained.run;
  auto feed = feed_of(self_comm{});
  for (std::size_t i = 0; i < 9 * 16; ++i) run.weights("layer1.0.conv1.weight")[i] = 0;
  run.adopt_weights();
  auto integers = quantize_network(run, feed, 2);
  CHECK(logits_of(integers) != std::vector<std::int32_t>(logits_of(integers).size()));
  run.weights("layer2.0.conv2.weight")[5] = std::numeric_limits<float>::infinity();
  run.adopt_weights();
  CHECK_THROWS_WITH_AS((void)quantize_network(run, feed, 2),
                       doctest::Contains("\"layer2.0.conv2.weight\" has a number that is inf"),
                       error);
}
