// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/int8/quantization_report.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace support;

namespace {

/// The range of one layer is a hundredth of its extremes.
struct one_narrow_range {
  int narrow;
  mutable int layer = 0;
  detail::ops::real_range choose(std::span<const double>,
                                 const detail::ops::real_range& extremes) const {
    const float share = layer++ == narrow ? 0.01F : 1;
    return {extremes.low * share, extremes.high * share};
  }
};

}  // namespace

TEST_CASE(
    "quantization_report::from: fp32 without any layer, and the layer that was spoilt costs most") {
  const folder scratch;
  resnet<8, fp32, cpu, small> full;
  auto training = feed_of(self_comm{});
  trainer run_fp32{full, sgd{.momentum = 0.9}, steady, solo{}};
  run_fp32.fit(training, 10);
  run_fp32.save(scratch.file("weights"));
  const metrics fp32_metrics = run_fp32.evaluate(data, training.normalization());

  resnet<8, int8, cpu, small> net;
  trainer run{net, sgd{}, steady, solo{}};
  run.load(scratch.file("weights"));
  auto feed = feed_of(self_comm{});
  const auto layers = calibrate(run, feed, 4, one_narrow_range{.narrow = 2});
  const metrics int8_metrics = run.evaluate(data, training.normalization());
  const quantization_report report =
      quantization_report::from(run, layers, data, training.normalization());

  CHECK(report.int8.loss == int8_metrics.loss);
  // The engines of fp32 differ (winograd, direct), so sums are rounded in another order.
  CHECK(report.fp32.mean_loss() == doctest::Approx(fp32_metrics.mean_loss()).epsilon(1e-3));
  CHECK(report.fp32.accuracy() == fp32_metrics.accuracy());
  REQUIRE(report.single.size() == 7);
  CHECK(report.costliest() == 2);
  for (std::size_t k = 0; k < report.single.size(); ++k) {
    CHECK(report.single[k].count == data.size());
    CHECK(report.single[k].loss != report.fp32.loss);  // each was in int8
    CHECK(report.single[k].loss != report.int8.loss);
  }
  CHECK(run.evaluate(data, training.normalization()).loss == int8_metrics.loss);  // int8 again

  const std::string text = describe(report);
  CHECK(contains_all(text, {"in fp32", "conv1 ", " dB", "layer2.0.conv2",
                            report.layers[2].name + " costs most: alone"}));
}

TEST_CASE("describe(quantization_report): a table and a sentence") {
  metrics fp32, int8, first, second;
  fp32.count = int8.count = first.count = second.count = 1000;
  fp32.top1 = 900, int8.top1 = 880, first.top1 = 899, second.top1 = 885;
  fp32.loss = 300, int8.loss = 350, first.loss = 301, second.loss = 340;
  const quantization_report report{
      {{"conv1", 0, 1, 0.01, 0, {}}, {"layer1.0.conv1", -1, 1, 0.1, 0.0025, {}}},
      fp32,
      int8,
      {first, second}};
  CHECK(describe(report) ==
        "accuracy 90.00 % in fp32, 88.00 % in int8; loss 0.3000, 0.3500\n"
        "signal to noise and clipped inputs of each layer; the loss it adds alone in int8\n"
        "  conv1           40.0 dB   0.0000 %   +0.00100\n"
        "  layer1.0.conv1  20.0 dB   0.2500 %   +0.04000\n"
        "layer1.0.conv1 costs most: alone in int8 it changes the loss by +0.04000 and the accuracy "
        "by -1.50 points\n");
}
