// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Steps of networks by the engine cudnn over its double (cudnn_on_host.hpp), with batch norms fused
// into convolutions or not.
#pragma once

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/ops/engines/cudnn/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>

#include "tests/support/cudnn_on_host.hpp"

namespace support {

using namespace cordee;

using plain_cudnn = cudnn;
using fusing_cudnn = cudnn_with<cudnn_settings{.fuse_batch_norm = true}>;
using fixed_cudnn = cudnn_with<cudnn_settings{.deterministic = true, .fuse_batch_norm = true}>;

/// A new double in this state, and no choice of places.
inline void begin_double(const host_cudnn& state = {}) {
  host_state() = state;
  cordee::detail::ops::cudnn_fused_places::current().clear();
}

struct fused_run {
  std::vector<double> losses;
  std::vector<float> gradients, weights;  // gradients of the last step
  int fused = 0;                          // executions of the last step
};
struct fused_run_options {
  int steps = 1, accumulate = 1;
  double learning_rate = 0.05;
  std::uint64_t seed = 3;  // of the images
  bool capture_graphs = false;
};

/// Trains Net; prepare(net) comes first.
template <class Net, class Prepare>
fused_run train_fused(const fused_run_options& options, const Prepare& prepare) {
  using device_type = typename Net::device;
  const device_type device;
  Net net{device};
  prepare(net);
  const synthetic images{
      .extent = Net::input, .classes = Net::classes, .samples = 64, .seed = options.seed};
  loader feed{images,
              self_comm{},
              {.global_batch = 6 * options.accumulate, .accumulate = options.accumulate}};
  trainer run{net,
              sgd{},
              constant{.learning_rate = options.learning_rate},
              solo{},
              {.capture_graphs = options.capture_graphs, .loss_scaling = {.initial = 1024}}};
  upload<device_type> uploaded(device);
  fused_run out;
  for (int k = 0; k < options.steps; ++k) {
    host_state().fused = 0;
    const auto step = run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k));
    CHECK(step.applied);
    out.losses.push_back(step.train.mean_loss());
    out.fused = host_state().fused;
  }
  out.gradients = copy_to_host<float, device_type>(device, run.grads(), run.compute());
  out.weights = copy_to_host<float, device_type>(device, run.weights(), run.compute());
  return out;
}
template <class Net>
fused_run train_fused(const fused_run_options& options = {}) {
  return train_fused<Net>(options, [](auto&) {});
}

/// ||a - b|| / ||b||
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / norm);
}

}  // namespace support
