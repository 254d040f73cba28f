// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/entropy_range.hpp>
#include <cordee/ops/mean_squared_error_range.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/int8/calibrate.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/relative.hpp"
#include "tests/support/small_network.hpp"
#include "tests/support/way_error.hpp"

using namespace cordee;
using namespace cordee::detail::nn;
using namespace support;

namespace {

/// The error of the first layer, a 3x3 convolution of one channel, on a batch: y8 by the library's
/// rounding of each input and weight, and the convolutions in double precision.
struct first_layer_error {
  double error = 0;         // |y8 - y| / |y|
  double magnitude = 0;     // |sum of |x w|| / |y|
  std::size_t clipped = 0;  // inputs that are farther than half a step from their byte's number

  /// y and y8 in fp32: at most 9 products, as many sums, a scale and its factor are 20 roundings of
  /// 2^-24 of the sum of |x w|, in each of the two.
  double rounding() const { return 2 * 20 * 0x1p-24 * magnitude; }
};

template <class Run>
first_layer_error error_of(Run& run, const batch<cpu>& b, double low, double high) {
  const auto quantizer = detail::ops::fit_affine(static_cast<float>(low), static_cast<float>(high),
                                                 detail::ops::unsigned_bytes);
  const segment& filters = run.segments()[0];
  REQUIRE(filters.name == "conv1.weight");
  const float* const w = run.weights().data + filters.offset;  // (K, 1, 3, 3)
  const int side = small.image.height;
  const auto pixels = static_cast<std::size_t>(side * side);
  double off = 0, whole = 0, magnitude = 0;
  std::size_t clipped = 0;
  std::vector<float> x(pixels);
  for (std::size_t n = 0; n < static_cast<std::size_t>(b.count); ++n) {
    detail::ops::normalize_bytes<float, 1>(small.image, 1, b.pixels.data + n * pixels,
                                           b.normalization, x.data(), cpu::stream{});
    for (const float v : x)
      clipped += std::abs(v - quantizer.fake_quantize(v)) > 0.5001F * quantizer.scale ? 1 : 0;
    for (std::size_t k = 0; k < filters.size / 9; ++k) {
      float largest = 0;
      for (std::size_t t = 0; t < 9; ++t) largest = std::max(largest, std::abs(w[9 * k + t]));
      const auto symmetric = detail::ops::fit_symmetric(largest);
      for (int i = 0; i < side; ++i)
        for (int j = 0; j < side; ++j) {
          double y = 0, y8 = 0, sum = 0;
          for (int t = 0; t < 9; ++t) {
            const int h = i + t / 3 - 1, l = j + t % 3 - 1;
            if (h < 0 || l < 0 || h >= side || l >= side) continue;
            const float v = x[static_cast<std::size_t>(h * side + l)],
                        weight = w[9 * k + static_cast<std::size_t>(t)];
            const double product = static_cast<double>(v) * static_cast<double>(weight);
            y += product;
            sum += std::abs(product);
            y8 += static_cast<double>(quantizer.fake_quantize(v)) *
                  static_cast<double>(symmetric.fake_quantize(weight));
          }
          off += (y8 - y) * (y8 - y);
          whole += y * y;
          magnitude += sum * sum;
        }
    }
  }
  return {std::sqrt(off / whole), std::sqrt(magnitude / whole), clipped};
}

/// Half of the extremes; notes the sums of the histograms.
struct half_range {
  std::vector<double>* totals;
  detail::ops::real_range choose(std::span<const double> counts,
                                 const detail::ops::real_range& extremes) const {
    totals->push_back(std::accumulate(counts.begin(), counts.end(), 0.0));
    return {extremes.low / 2, extremes.high / 2};
  }
};

}  // namespace

TEST_CASE("calibrate: the error is |y8 - y| / |y| of the last update, on the first layer") {
  resnet<8, int8, cpu, small> net;
  trainer run{net, sgd{}, steady, solo{}};
  auto calibrated = feed_of(self_comm{}), again = feed_of(self_comm{});
  const auto report = calibrate(run, calibrated, 3);
  for (int k = 0; k < 2; ++k) again.next();
  const auto last = again.next();
  REQUIRE(last.size() == 1);
  const first_layer_error wanted = error_of(run, last[0], report[0].low, report[0].high);
  CHECK(wanted.error > 0);
  CHECK(std::abs(report[0].error - wanted.error) <= wanted.rounding());
}

TEST_CASE("calibrate: int8 evaluates as fp32 on its weights, with any number of ranks") {
  const folder scratch;
  const std::string path = scratch.file("fp32.safetensors");
  resnet<8, fp32, cpu, small> full;
  auto training = feed_of(self_comm{});
  trainer run_fp32{full, sgd{.momentum = 0.9}, steady, solo{}};
  run_fp32.fit(training, 20);
  const metrics expected = run_fp32.evaluate(data, training.normalization());
  run_fp32.save(path);
  REQUIRE(expected.accuracy() > 0.9);

  std::vector<calibrated_layer> first;
  metrics first_found;
  // Ranks divide the same samples, so their sums of doubles differ by the order of 2^20 terms at
  // most.
  constexpr double rounding = 0x1p-33;
  // Evaluation takes the ranks' mean statistics, nine roundings in float of two numbers in each of
  // seven layers, after which an activation may round to the other byte, a 255th of the range of
  // one of 64 or more inputs. That is the margins' error, see below.
  constexpr double averaged = 9 * 2 * 7 * 0x1p-24 + 1.0 / 255 / 64;
  for (const int ranks : {1, 2, 3, 5, 8}) {
    struct outcome {
      std::vector<calibrated_layer> report;
      metrics found;
    };
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      resnet<8, int8, cpu, small> net;
      trainer run{net, sgd{}, steady, ring{comm}, {.seed = 2}};
      run.load(path);
      auto feed = feed_of(comm);
      const auto report = calibrate(run, feed, 4);  // one epoch
      return outcome{report, run.evaluate(data, feed.normalization())};
    });
    for (const auto& [report, found] : by_rank) {
      REQUIRE(report.size() == 7);
      if (first.empty()) {
        first = report;
        first_found = found;
      }
      CHECK(found.accuracy() == first_found.accuracy());
      CHECK(found.mean_loss() == relative(first_found.mean_loss(),
                                          averaged * (1 + std::log(1 / first_found.mean_loss()))));
      for (std::size_t k = 0; k < report.size(); ++k) {
        CHECK(report[k].name == first[k].name);
        CHECK(report[k].low == first[k].low);  // over all ranks' samples
        CHECK(report[k].high == first[k].high);
        CHECK(report[k].saturation == 0);  // the ranges are those of these inputs
        CHECK(relatively_close(report[k].error, first[k].error, rounding));
      }
    }
  }
  // Rounding to a step d has the variance d^2 / 12. A range of 16 times the root mean square of the
  // inputs has d = 16 / 255 of that, a largest weight of 8 times theirs d = 8 / 127: together
  // 0.026, and twice that where products cancel as much.
  double errors = 0;
  for (const calibrated_layer& layer : first) {
    CHECK(layer.error > 0);
    CHECK(layer.error < 2 * 0.026);
    errors += layer.error;
  }
  // A margin m that is off by the share e changes l = log(1 + exp(-m)) by at most
  // e l max(1, log(1 / l)), since exp(-m) / (1 + exp(-m)) <= l and m <= log(1 / l); the mean is at
  // most e L (1 + log(1 / L)), by Jensen's inequality. Margins are off as the features are, by at
  // most the layers' errors together.
  CHECK(first_found.loss != expected.loss);  // it was int8
  const double loss = expected.mean_loss();
  REQUIRE(loss < 1);
  CHECK(std::abs(first_found.mean_loss() - loss) <= errors * loss * (1 + std::log(1 / loss)));
  // Each sample's loss is below log 2, so each is right.
  REQUIRE(static_cast<double>(data.size()) * 2 * loss < std::log(2));
  CHECK(first_found.accuracy() == expected.accuracy());
  CHECK(first.front().name == "conv1");
  CHECK(first.back().name == "layer3.0.conv2");
}

TEST_CASE("calibrate: inputs outside of a range are counted, and increase the error") {
  resnet<8, int8, cpu, small> net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(self_comm{});
  const auto report = calibrate(run, feed, 1);
  for (const calibrated_layer& layer : report) CHECK(layer.saturation == 0);
  // Pixels three times as large as those of the calibration.
  auto& observer = net.quantization.observer;
  std::vector<batch<cpu>> bright;
  for (batch<cpu> b : feed.next()) {
    b.normalization.scale[0] = 3;
    bright.push_back(b);
  }
  observer.layers[0].clipped = observer.layers[0].count = 0;
  observer.layers[0].squared_error = observer.layers[0].squared_norm = 0;
  observer.mode = quantization_observer::run_mode::compared;
  net.forward(run.packed_parameters(), run.weights(), bright[0], phase::evaluate, run.compute());
  observer.mode = quantization_observer::run_mode::quantized;
  const auto& first = observer.layers[0];
  const double error = std::sqrt(first.squared_error / first.squared_norm);
  const first_layer_error wanted = error_of(run, bright[0], report[0].low, report[0].high);
  REQUIRE(wanted.clipped > 0);
  CHECK(first.clipped == static_cast<double>(wanted.clipped));
  CHECK(first.count ==
        static_cast<double>(bright[0].count * small.image.height * small.image.width));
  CHECK(std::abs(error - wanted.error) <= wanted.rounding());
  CHECK(error > report[0].error);
}

TEST_CASE("calibrate: a rank without samples gets the others' ranges, and nothing else changes") {
  const auto by_rank = on_ranks(2, [&](threads comm) {
    resnet<8, int8, cpu, small> net;
    trainer run{net, sgd{}, steady, ring{comm}};
    loader feed{data, comm, {.global_batch = 1}};
    const auto before = copy_to_host<float, cpu>(cpu(1), run.weights(), {});
    calibrate(run, feed, 1);
    const auto after = copy_to_host<float, cpu>(cpu(1), run.weights(), {});
    for (std::size_t i = 0; i < net.segments()[net.tensors()].offset; ++i)
      CHECK(before[i] == after[i]);
    return after;
  });
  CHECK(by_rank[0] == by_rank[1]);
}

TEST_CASE("calibrate: changes ranges only, and rejects zero batches") {
  resnet<8, int8, cpu, small> net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(self_comm{});
  const auto before = copy_to_host<float, cpu>(cpu(1), run.weights(), {});
  CHECK_THROWS_AS(calibrate(run, feed, 0), usage_error);
  loader wider{synthetic{.extent = {1, 16, 17}, .classes = 4, .samples = 96, .seed = 3},
               self_comm{},
               {.global_batch = 24},
               {},
               {}};
  CHECK_THROWS_WITH_AS(calibrate(run, wider, 1),
                       doctest::Contains("loader of calibrate has images of 1x16x17"), error);
  calibrate(run, feed, 2);
  const auto after = copy_to_host<float, cpu>(cpu(1), run.weights(), {});
  for (const segment& s : run.segments()) {
    const bool range = s.name.ends_with("input_min") || s.name.ends_with("input_max");
    for (std::size_t i = s.offset; i < s.end(); ++i) CHECK((before[i] == after[i]) != range);
  }
}

TEST_CASE("calibrate: no batches on one rank end it on every rank") {
  CHECK(contains(error_at_peer([](threads comm) {
                   resnet<8, int8, cpu, small> net;
                   trainer run{net, sgd{}, steady, ring{comm}};
                   auto feed = feed_of(comm);
                   (void)calibrate(run, feed, comm.rank());
                 }),
                 "calibrate: ranges need at least one batch"));
}

TEST_CASE("calibrate: a choice gets each layer's histogram and extremes over all ranks") {
  resnet<8, int8, cpu, small> net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(self_comm{});
  const auto extremes = calibrate(run, feed, 2);
  on_ranks(3, [&](threads comm) {
    resnet<8, int8, cpu, small> model;
    trainer ranked{model, sgd{}, steady, ring{comm}};
    auto samples = feed_of(comm);
    std::vector<double> totals;
    const auto halves = calibrate(ranked, samples, 2, half_range{&totals});
    REQUIRE(totals.size() == halves.size());
    CHECK(totals[0] == 2 * 24 * 16 * 16);  // pixels
    for (std::size_t k = 0; k < halves.size(); ++k) {
      CHECK(halves[k].low == extremes[k].low / 2);
      CHECK(halves[k].high == extremes[k].high / 2);
      CHECK(halves[k].saturation > 0);
    }
    CHECK(!model.quantization.observer.counts_numbers);
    return 0;
  });
  auto again = feed_of(self_comm{});
  const auto chosen = calibrate(run, again, 2, mean_squared_error_range{});
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    CHECK(chosen[k].low >= extremes[k].low);
    CHECK(chosen[k].high <= extremes[k].high);
  }
}

TEST_CASE("calibrate: a percentile beside a choice of ranges, or without meaning, is refused") {
  resnet<8, int8, cpu, small> net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(self_comm{});
  const std::vector<float> before(run.weights().begin(), run.weights().end());
  net.quantization.percentile = 99.9;
  const auto refused = [&](const auto& choice) {
    CHECK_THROWS_WITH_AS(calibrate(run, feed, 1, choice),
                         doctest::Contains("quantization.percentile and a choice of ranges"),
                         usage_error);
  };
  refused(mean_squared_error_range{});
  refused(entropy_range{});
  for (const double meaningless : {50.0, 100.5, std::nan("")}) {
    net.quantization.percentile = meaningless;
    CHECK_THROWS_WITH_AS(calibrate(run, feed, 1),
                         doctest::Contains("quantization.percentile is above 50 and at most 100"),
                         usage_error);
  }
  CHECK(std::equal(before.begin(), before.end(), run.weights().begin()));  // nothing was spent
  net.quantization.percentile = 100;
  CHECK_NOTHROW(calibrate(run, feed, 1, entropy_range{}));
}

TEST_CASE("calibrate: images that are normalized otherwise than in training are refused") {
  resnet<8, int8, cpu, small> net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(self_comm{});
  run.fit_state().data = detail::train::data_description{
      .has_normalization = true, .normalization = feed.normalization(), .source = "the file x"};
  CHECK_NOTHROW(calibrate(run, feed, 1));
  run.fit_state().data.normalization.mean[0] += 0.5f;
  CHECK(contains(error_message([&] { calibrate(run, feed, 1); }),
                 "calibrate: the loader: images are normalized by mean"));
}
