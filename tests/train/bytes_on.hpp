// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A little network in int8 that any device trains, by any engine of bytes.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

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

namespace support {

using namespace cordee;

inline constexpr extent bytes_image{1, 5, 4};
template <class D, class Engine = reference>
using net_on = network<sequential<convolution<6, 3>, batch_norm<relu>, convolution<4, 1>,
                                  batch_norm<relu>, global_average_pool, linear<4>>,
                       int8, D, Engine, bytes_image, 4>;
inline const synthetic bytes_images{.extent = bytes_image, .classes = 4, .samples = 20, .seed = 3};

inline constexpr auto steadily = [](double) { return 0.1; };

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

/// Seven updates, and an evaluation after the third, which is of more samples than a batch.
template <class Engine = reference, class D, class R>
made train(const D& where, const R& reducer, const how& by = {}) {
  net_on<D, Engine> net{where};
  net.quantisation.averaging = 0.2;
  net.quantisation.percentile = by.percentile;
  net.quantisation.freeze_ranges_at = by.freeze_at;
  loader feed{bytes_images, reducer.link, {.global_batch = 4}};
  trainer run{net, sgd{.momentum = 0.9}, steadily, reducer, {.replay = by.replay}};
  upload<D> there(where);
  made out;
  for (int k = 0; k < 7; ++k) {
    if (k == 3) out.held_out = run.evaluate(bytes_images, {}, 10).loss;
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

}  // namespace support
