// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A small network in half precision, trained for ten steps on any device by any engine, launch by
// launch or replayed.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/offload_weights.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/trainer.hpp>

namespace support {

using namespace cordee;

inline constexpr extent replay_image{3, 8, 8};
template <class D, class Engine>
using replay_network =
    network<sequential<convolution<16, 3>, batch_norm<relu>, convolution<16, 3, 2>,
                       batch_norm<relu>, global_average_pool, linear<4>>,
            fp16, D, Engine, replay_image, 4>;
/// The same with weights by block.
template <class D, class Engine>
using offloaded_network =
    network<sequential<offload_weights<sequential<convolution<16, 3>, batch_norm<relu>>>,
                       offload_weights<sequential<convolution<16, 3, 2>, batch_norm<relu>>>,
                       global_average_pool, offload_weights<linear<4>>>,
            fp16, D, Engine, replay_image, 4>;

struct replay_outcome {
  std::vector<double> losses, scales;
  std::vector<float> weights;
  double evaluated = 0;
  bool operator==(const replay_outcome&) const = default;  // bitwise, of finite values
};

/// Ten updates, the first of which overflow their loss scale and are skipped.
template <class Engine, class D, class Net = replay_network<D, Engine>, class O = lars>
replay_outcome ten_steps(const D& device, bool capture_graphs,
                         const O& optimizer = {.trust_coefficient = 0.01}) {
  const synthetic images{.extent = replay_image, .classes = 4, .samples = 16, .seed = 3};
  Net net{device};
  loader feed{images, self_comm{}, {.global_batch = 8}};
  trainer run{net,
              optimizer,
              [](double epoch) { return 0.2 / (1 + epoch); },
              solo{},
              {.capture_graphs = capture_graphs, .loss_scaling = {.initial = 0x1p20}}};
  CHECK(run.describe_launches().starts_with(capture_graphs ? "as graphs" : "one by one"));
  upload<D> uploaded(device);
  replay_outcome out;
  bool skipped = false, applied = false;
  double scale = 0x1p20;
  for (int k = 0; k < 10; ++k) {
    const auto step = run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k));
    (step.applied ? applied : skipped) = true;
    out.losses.push_back(step.train.mean_loss());
    out.scales.push_back(step.loss_scale);
    CHECK(step.loss_scale == scale);
    if (!step.applied) scale /= 2;
  }
  CHECK((skipped && applied));
  out.weights = copy_to_host<float, D>(device, run.weights(), run.compute());
  out.evaluated = run.evaluate(images, {}, 5).loss;
  return out;
}

/// Replayed steps have the bits of eager ones, twice.
template <class Engine, class D>
void replays_alike(const D& device) {
  const replay_outcome eager = ten_steps<Engine>(device, false);
  CHECK(ten_steps<Engine>(device, false) == eager);  // the engine is deterministic
  for (int k = 0; k < 2; ++k) CHECK(ten_steps<Engine>(device, true) == eager);
}

}  // namespace support
