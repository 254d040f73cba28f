// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/calibrate.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("calibration: FP32's weights evaluate in bytes as they did, on any number of ranks") {
  const folder here;
  const std::string path = here.file("fp32.safetensors");
  resnet<8, fp32, cpu, small> full;
  auto training = feed_of(alone{});
  trainer teach{full, sgd{.momentum = 0.9}, steady, solo{}};
  teach.fit(training, 20);
  const score wanted = teach.evaluate(data, training.norm());
  teach.save(path);
  REQUIRE(wanted.accuracy() > 0.9);

  std::vector<calibrated_layer> first;
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const auto by_rank = on_ranks(ranks, [&](threads link) {
      resnet<8, int8, cpu, small> net;
      trainer run{net, sgd{}, steady, ring{link}, {.seed = 2}};
      run.load(path);
      auto feed = feed_of(link);
      const auto report = calibrate(run, feed, 4);  // the whole epoch
      const score found = run.evaluate(data, feed.norm());
      CHECK(std::abs(found.accuracy() - wanted.accuracy()) <= 0.03);
      CHECK(found.loss != wanted.loss);  // bytes it was
      CHECK(found.mean_loss() == doctest::Approx(wanted.mean_loss()).epsilon(0.2).scale(1));
      return report;
    });
    for (const auto& report : by_rank) {
      REQUIRE(report.size() == 7);
      if (first.empty()) first = report;
      for (std::size_t k = 0; k < report.size(); ++k) {
        CHECK(report[k].name == first[k].name);
        CHECK(report[k].low == first[k].low);  // all ranks saw all samples
        CHECK(report[k].high == first[k].high);
        CHECK(report[k].error > 0);
        CHECK(report[k].error < 0.05);
        CHECK(report[k].saturation < 1e-3);
      }
    }
  }
  CHECK(first.front().name == "conv1");
  CHECK(first.back().name == "layer3.0.conv2");
}

TEST_CASE("calibration: what lies beyond a range that is too small is counted, and costs") {
  resnet<8, int8, cpu, small> net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(alone{});
  const auto fair = calibrate(run, feed, 1);
  for (const auto& one : fair) CHECK(one.saturation == 0);
  // Other data than it was calibrated for: pixels three times as large.
  auto& watch = net.quantisation.watch;
  std::vector<batch<cpu>> bright;
  for (batch<cpu> b : feed.next()) {
    b.norm.scale[0] = 3;
    bright.push_back(b);
  }
  watch.layers[0].clipped = watch.layers[0].count = 0;
  watch.layers[0].error = watch.layers[0].square = 0;
  watch.how = quantisation_watch::runs::compared;
  net.forward(run.image(), run.weights(), bright[0], phase::evaluate, run.compute());
  watch.how = quantisation_watch::runs::quantised;
  const auto& seen = watch.layers[0];
  CHECK(seen.clipped > 0.1 * seen.count);
  CHECK(std::sqrt(seen.error / seen.square) > 0.1);
}

TEST_CASE("calibration: a rank without samples learns the others' ranges, and no more") {
  const auto by_rank = on_ranks(2, [&](threads link) {
    resnet<8, int8, cpu, small> net;
    trainer run{net, sgd{}, steady, ring{link}};
    loader feed{data, link, {.global_batch = 1}};
    const auto before = on_host<float, cpu>(cpu(1), run.weights(), {});
    calibrate(run, feed, 1);
    const auto after = on_host<float, cpu>(cpu(1), run.weights(), {});
    for (std::size_t i = 0; i < net.segments()[net.tensors()].offset; ++i)
      CHECK(before[i] == after[i]);
    return after;
  });
  CHECK(by_rank[0] == by_rank[1]);
}

TEST_CASE("calibration: it moves nothing but ranges, and refuses to look at nothing") {
  resnet<8, int8, cpu, small> net;
  trainer run{net, sgd{}, steady, solo{}};
  auto feed = feed_of(alone{});
  const auto before = on_host<float, cpu>(cpu(1), run.weights(), {});
  CHECK_THROWS_AS(calibrate(run, feed, 0), misuse);
  calibrate(run, feed, 2);
  const auto after = on_host<float, cpu>(cpu(1), run.weights(), {});
  for (const segment& s : run.segments()) {
    const bool range = s.name.ends_with("input_min") || s.name.ends_with("input_max");
    for (std::size_t i = s.offset; i < s.end(); ++i) CHECK((before[i] == after[i]) != range);
  }
}
