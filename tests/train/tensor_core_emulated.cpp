// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network with engine `tensor_core`, emulated, computes what it computes with engine `reference`.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/histogram.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantize.hpp>
#include <cordee/ops/gpu/quantized_table.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/way_error.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class Engine>
using fp16_network =
    resnet<8, fp16, emulated, resnet_options{.image = {1, 8, 8}, .zero_gamma = false}, Engine>;
template <class Engine>
using int8_network = network<sequential<convolution<12>, batch_norm<relu>, convolution<20, 3, 2>,
                                        batch_norm<relu>, global_average_pool, linear<5>>,
                             int8, emulated, Engine, extent{1, 8, 8}, 5>;

/// The gradients of one batch by tensor, the loss, and the ranges of an int8 network.
struct step_result {
  std::vector<std::vector<double>> gradients;
  double loss = 0;
  std::vector<double> ranges;
};

template <class Net>
step_result step() {
  constexpr int samples = 3;
  const emulated where{1};
  const auto s = where.make_stream();
  Net net{where};
  buffer<float, emulated> plane(where, net.plane_size()), gradients(where, net.plane_size());
  net.initialize(plane.span(), 1);
  if constexpr (Quantized<typename Net::precision>) {
    net.quantization.percentile = 90;
    // Zero is not the first byte, and part of each layer's input is outside of its range.
    for (const segment& one : net.segments()) {
      if (one.name.ends_with("input_min")) plane.span().data[one.offset] = -0.5f;
      if (one.name.ends_with("input_max")) plane.span().data[one.offset] = 0.8f;
    }
  }
  auto packed = net.make_packed_parameters();
  net.pack_parameters(plane.span(), packed, s);
  std::vector<std::uint8_t> pixels(samples * net.input.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
  const std::vector<std::int32_t> labels{3, 1, 4};
  batch<emulated> b;
  b.pixels = {pixels.data(), pixels.size()};
  b.labels = {labels.data(), labels.size()};
  b.global_samples = b.count = samples;
  net.forward(packed, plane.span(), b, phase::train, s);
  net.backward(
      packed, gradients.span(), write_mode::overwrite, [](std::size_t) {}, s);
  step_result out{.gradients = {}, .loss = net.read_metrics(s).mean_loss(), .ranges = {}};
  if constexpr (Quantized<typename Net::precision>) {
    auto& q = net.quantization;
    q.fetch(where, s);
    out.ranges = q.observer.take_minima(true);
    q.clip_to_percentile(out.ranges, q.observer.take_histograms(true));
  }
  for (const segment& one : net.segments().first(net.tensors())) {
    const float* const first = gradients.span().data + one.offset;
    out.gradients.emplace_back(first, first + one.size);
  }
  return out;
}

/// Of a tensor of gradients the error may be `tolerance` times its norm.
template <class Net, class ReferenceNet>
void check_steps(double tolerance) {
  const step_result tested = step<Net>(), expected = step<ReferenceNet>();
  CHECK(relatively_close(tested.loss, expected.loss, 2e-3));
  REQUIRE(tested.gradients.size() == expected.gradients.size());
  for (std::size_t tensor = 0; tensor < expected.gradients.size(); ++tensor) {
    double off = 0, whole = 0;
    for (std::size_t i = 0; i < expected.gradients[tensor].size(); ++i) {
      off += std::pow(tested.gradients[tensor][i] - expected.gradients[tensor][i], 2);
      whole += std::pow(expected.gradients[tensor][i], 2);
    }
    CAPTURE(tensor);
    CHECK(whole > 0);
    CHECK(std::sqrt(off / whole) < tolerance);
  }
  // The first layer's input is the image, on both; the others' are rounded.
  REQUIRE(tested.ranges.size() == expected.ranges.size());
  for (std::size_t k = 0; k < expected.ranges.size(); ++k)
    CHECK(std::abs(tested.ranges[k] - expected.ranges[k]) <=
          (k < 2 ? 0 : 0.02) * std::max(std::abs(expected.ranges[k & ~std::size_t{1}]),
                                        std::abs(expected.ranges[k | 1])));
}

}  // namespace

TEST_CASE(
    "ResNet-8 in half precision: engine tensor_core's step is engine reference's but for "
    "rounding") {
  check_steps<fp16_network<tensor_core>, fp16_network<reference>>(1e-2);  // some units of 2^-11
}
TEST_CASE("int8: engine tensor_core's step is engine reference's but for bf16 backward") {
  // Some units of 2^-8, and numbers that round to the other byte.
  check_steps<int8_network<tensor_core>, int8_network<reference>>(3e-2);
}
