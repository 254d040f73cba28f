// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Networks in int8 on a GPU, emulated: their ranges stand in the device's memory, and the steps are
// the CPU's.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/convolution_reference.hpp>
#include <cordee/ops/grid/batch_norm.hpp>
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/ops/grid/histogram.hpp>
#include <cordee/ops/grid/linear.hpp>
#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/pooling.hpp>
#include <cordee/ops/grid/quantise.hpp>
#include <cordee/ops/grid/segmented.hpp>
#include <cordee/ops/grid/softmax_loss.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr extent image{1, 6, 6};
template <class D>
using net_on = network<sequential<convolution<8, 3>, batch_norm<relu>, convolution<4, 1>,
                                  batch_norm<relu>, global_average_pool, linear<4>>,
                       int8, D, reference, image, 4>;
const synthetic images{.extent = image, .classes = 4, .samples = 40, .seed = 3};

constexpr auto steadily = [](double) { return 0.1; };

struct made {
  std::vector<double> losses;
  std::vector<float> weights, ranges;
  double held_out = 0;
  std::size_t replays = 0;

  bool operator==(const made& other) const {
    return losses == other.losses && weights == other.weights && ranges == other.ranges &&
           held_out == other.held_out;
  }
};

struct how {
  bool replay = false;
  double percentile = 100, freeze_at = 1e9;
  int bad_step = -1;  // its pixels are infinite
};

/// Nine updates, and an evaluation after the fourth, which is of more samples than a batch.
template <class D>
made train(const D& where, const threads& link, const how& by = {}) {
  net_on<D> net{where};
  net.quantisation.averaging = 0.2;
  net.quantisation.percentile = by.percentile;
  net.quantisation.freeze_ranges_at = by.freeze_at;
  loader feed{images, link, {.global_batch = 8}};
  trainer run{net, sgd{.momentum = 0.9}, steadily, ring{link}, {.replay = by.replay}};
  upload<D> there(where);
  made out;
  for (int k = 0; k < 9; ++k) {
    if (k == 4) out.held_out = run.evaluate(images, {}, 20).loss;
    std::vector<batch<D>> micro;
    for (const batch<D>& b : there.to(feed.next(), run.compute())) micro.push_back(b);
    if (k == by.bad_step)
      for (batch<D>& b : micro) b.norm.scale[0] = std::numeric_limits<float>::infinity();
    const auto step = run.step(micro, k);
    CHECK(step.applied == (k != by.bad_step));
    if (step.applied) out.losses.push_back(step.train.mean_loss());
  }
  out.weights = on_host<float, D>(where, run.weights(), run.compute());
  for (const segment& s : run.segments())
    if (s.name.find("input_m") != s.name.npos) out.ranges.push_back(out.weights[s.offset]);
  if constexpr (requires { where.replays(); }) out.replays = where.replays();
  return out;
}

template <class D>
made alone_on(const D& where, const how& by = {}) {
  return on_ranks(1, [&](threads link) { return train(where, link, by); })[0];
}

double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    off += std::pow(static_cast<double>(a[i] - b[i]), 2);
    all += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(off / all);
}

}  // namespace

TEST_CASE("int8 on a grid: steps are the CPU's but for rounding, the first range to the bit") {
  const made here = alone_on(cpu(1)), there = alone_on(deferred(1));
  REQUIRE(there.ranges.size() == 4);
  CHECK(there.ranges[0] == here.ranges[0]);
  CHECK(there.ranges[1] == here.ranges[1]);
  CHECK(there.losses[0] == doctest::Approx(here.losses[0]).epsilon(1e-4));
  // A number that rounds to the other byte is a 255th of its range.
  CHECK(apart(there.weights, here.weights) < 0.02);
  CHECK(there.held_out == doctest::Approx(here.held_out).epsilon(0.02));
}

TEST_CASE("int8 on a grid: every rank has the same ranges, and a percentile is one for all") {
  for (const double percentile : {100.0, 97.0}) {
    const auto by_rank = on_ranks(2, [&](threads link) {
      return train(deferred(static_cast<std::uint64_t>(link.rank())), link,
                   {.percentile = percentile});
    });
    CHECK(by_rank[0].ranges == by_rank[1].ranges);
    const made here = alone_on(cpu(1), {.percentile = percentile});
    CHECK(by_rank[0].ranges[0] == here.ranges[0]);
    CHECK(by_rank[0].ranges[1] == here.ranges[1]);
    CHECK(by_rank[0].ranges[3] == doctest::Approx(here.ranges[3]).epsilon(0.3));
  }
}

TEST_CASE("int8 on a grid: a skipped step moves no range, nor does any behind the freezing epoch") {
  const made frozen = alone_on(deferred(1), {.freeze_at = 1}),
             skipped = alone_on(deferred(1), {.freeze_at = 2, .bad_step = 1});
  CHECK(skipped.ranges == frozen.ranges);
  CHECK(alone_on(deferred(1), {.freeze_at = 2}).ranges != frozen.ranges);
}

TEST_CASE(
    "int8 on a grid: what the host fetches late it fetches in order, and steps are replayed") {
  how by{.percentile = 97, .bad_step = 6};
  const made eager = alone_on(deferred(1), by);
  CHECK(alone_on(deferred(0), by) == eager);
  by.replay = true;
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    const made replayed = alone_on(deferred(seed), by);
    CHECK(replayed == eager);
    CHECK(replayed.replays > 10);
  }
}

TEST_CASE("int8 on a grid: evaluation without ranges refuses, by the first such layer's name") {
  const deferred where;
  const std::string said = complaint([&] {
    threads::launch(1, [&](threads link) {
      net_on<deferred> net{where};
      trainer run{net, sgd{.momentum = 0.9}, steadily, ring{link}};
      (void)run.evaluate(images, {});
    });
  });
  CHECK(said.find("layer \"conv1\" does not know the range of its input") != said.npos);
}
