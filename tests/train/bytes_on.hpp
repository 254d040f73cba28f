// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A small network in int8, trained on any device by any int8 engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/histogram.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantize.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/way_error.hpp"

namespace support {

using namespace cordee;

inline constexpr extent bytes_image{1, 5, 4};
template <class D, class Engine = reference>
using net_on = network<sequential<convolution<6, 3>, batch_norm<relu>, convolution<4, 1>,
                                  batch_norm<relu>, global_average_pool, linear<4>>,
                       int8, D, Engine, bytes_image, 4>;
inline const synthetic bytes_images{.extent = bytes_image, .classes = 4, .samples = 20, .seed = 3};

inline constexpr constant constant_rate{0.1};

struct int8_outcome {
  std::vector<double> losses;
  std::vector<float> start, weights, ranges;
  double validation = 0;
  std::size_t replays = 0, waits = 0;  // of the host, of steps that are not its first

  bool operator==(const int8_outcome& other) const {
    return losses == other.losses && weights == other.weights && ranges == other.ranges &&
           validation == other.validation;
  }
};

struct int8_options {
  bool capture_graphs = false;
  double percentile = 100, freeze_at = 1e9;
  int bad_step = -1;  // of infinite pixels
};

/// Moves numbers at random by `part` of their root mean square.
template <class Real>
void add_noise(std::span<Real> x, double part, std::mt19937& random) {
  std::normal_distribution<double> normal;
  double squares = 0;
  for (const Real v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  const double deviation = part * std::sqrt(squares / static_cast<double>(x.size()));
  for (Real& v : x) v += static_cast<Real>(deviation * normal(random));
}

/// sgd on gradients that differ at random by `noise` of their tensor's root mean square, as those
/// of another device may by rounding.
struct perturbed_sgd : sgd {
  static constexpr bool capturable = false;
  double noise = 0;
  std::uint32_t seed = 0;

  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    std::mt19937 random(seed + 1000 * static_cast<std::uint32_t>(info.applied));
    for (const segment& one : v.segments) {
      Real* const gradients = v.grads.data + one.offset - v.segments[0].offset;
      add_noise(std::span<Real>(gradients, one.size), noise, random);
    }
    sgd::accept(v, info, s);
  }
};

/// Seven updates, and after the third an evaluation, whose batches are larger.
template <class Engine = reference, class D, class R, class O = sgd>
int8_outcome train(const D& device, const R& reducer, const int8_options& options = {},
                   const O& optimizer = {.momentum = 0.9}) {
  net_on<D, Engine> net{device};
  net.quantization.averaging = 0.2;
  net.quantization.percentile = options.percentile;
  net.quantization.freeze_ranges_at = options.freeze_at;
  loader feed{bytes_images, reducer.comm, {.global_batch = 4}};
  trainer run{net, optimizer, constant_rate, reducer, {.capture_graphs = options.capture_graphs}};
  upload<D> uploaded(device);
  int8_outcome out;
  out.start = copy_to_host<float, D>(device, run.weights(), run.compute());
  for (int k = 0; k < 7; ++k) {
    if (k == 3) out.validation = run.evaluate(bytes_images, {}, 10).loss;
    std::vector<batch<D>> micro;
    for (const batch<D>& b : uploaded.to(feed.next(), run.compute())) micro.push_back(b);
    if (k == options.bad_step)
      for (batch<D>& b : micro) b.normalization.scale[0] = std::numeric_limits<float>::infinity();
    const auto waits = [&] {
      if constexpr (requires { device.waits(); }) return k > 0 ? device.waits() : 0;
      return std::size_t{0};
    };
    const std::size_t before = waits();
    const auto step = run.step(micro, k);
    out.waits += waits() - before;
    CHECK(step.applied == (k != options.bad_step));
    if (step.applied) out.losses.push_back(step.train.mean_loss());
  }
  out.weights = copy_to_host<float, D>(device, run.weights(), run.compute());
  for (const segment& s : run.segments())
    if (s.name.find("input_m") != s.name.npos) out.ranges.push_back(out.weights[s.offset]);
  if constexpr (requires { device.replays(); }) out.replays = device.replays();
  return out;
}

/// Losses of 42 updates by the same four samples.
template <class Engine = reference, class D>
std::vector<double> learn_one_batch(const D& device, bool capture_graphs = false) {
  net_on<D, Engine> net{device};
  net.quantization.averaging = 0.2;
  const solo reducer;
  loader feed{bytes_images, reducer.comm, {.global_batch = 4}};
  trainer run{
      net, sgd{.momentum = 0.9}, constant_rate, reducer, {.capture_graphs = capture_graphs}};
  upload<D> uploaded(device);
  const auto samples = feed.next();
  std::vector<double> losses;
  for (int k = 0; k < 42; ++k) {
    std::vector<batch<D>> micro;
    for (const batch<D>& b : uploaded.to(samples, run.compute())) micro.push_back(b);
    losses.push_back(run.step(micro, k).train.mean_loss());
  }
  return losses;
}
/// The CPU's loss falls from 1.377 to 0.110, and to between 0.098 and 0.127 if each tensor's
/// gradients are off at random by up to a fifth: four times as much noise as bf16's products add
/// leaves half of the way to this bound.
inline constexpr double learned_part = 0.25;

/// Without the ranges, which are not finite at first.
inline std::vector<float> trainable_part(const std::vector<float>& weights) {
  const net_on<cpu> net{cpu(1)};
  const segment& last = net.segments()[detail::core::count_trainable(net.segments()) - 1];
  return {weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(last.end())};
}

/// How far seven updates on the CPU go apart, at most, when gradients differ by `noise`: an
/// activation that rounds to the other byte moves by a 255th of its range, so that the smallest
/// differences grow, by an amount that depends on the network alone.
struct int8_spread {
  double way = 0, validation = 0;

  template <class R>
  int8_spread(const R& reducer, const int8_options& options, double noise,
              const int8_outcome& host) {
    for (std::uint32_t seed = 1; seed <= 16; ++seed) {
      const auto other = train(cpu(1), reducer, options, perturbed_sgd{{}, noise, seed});
      way = std::max(way, way_error(trainable_part(other.weights), trainable_part(host.weights),
                                    trainable_part(host.start)));
      validation = std::max(validation, std::abs(other.validation - host.validation));
    }
  }
};
/// A device's error is one more of such differences: beyond twice the largest of 16, it is none.
inline constexpr double spread_bound = 2;

/// The first step's loss and pixels are the CPU's; then tensor cores round both factors of each
/// product of a gradient to bf16, by at most 2^-9 of it each.
template <class R>
void check_int8_steps(const int8_outcome& device, const int8_outcome& host, const R& reducer,
                      const int8_options& options) {
  REQUIRE(device.losses.size() == host.losses.size());
  REQUIRE(device.ranges.size() == host.ranges.size());
  CHECK(relatively_close(device.losses[0], host.losses[0], 1e-4));
  CHECK(device.ranges[0] == host.ranges[0]);  // of the pixels
  CHECK(device.ranges[1] == host.ranges[1]);
  const int8_spread spread(reducer, options, 0x1p-8, host);
  CHECK(way_error(trainable_part(device.weights), trainable_part(host.weights),
                  trainable_part(host.start)) <= spread_bound * spread.way);
}

}  // namespace support
