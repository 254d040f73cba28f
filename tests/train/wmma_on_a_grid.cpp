// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network on engine `wmma`, its tensor cores emulated, is the one on engine `reference`.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/resnet.hpp>
#include <cordee/ops/grid/batch_norm.hpp>
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/histogram.hpp>
#include <cordee/ops/grid/linear.hpp>
#include <cordee/ops/grid/pooling.hpp>
#include <cordee/ops/grid/quantise.hpp>
#include <cordee/ops/grid/softmax_loss.hpp>
#include <cordee/ops/grid/wmma/convolution.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class Engine>
using halves = resnet<8, fp16, emulated, shape{.image = {1, 8, 8}, .zero_gamma = false}, Engine>;
template <class Engine>
using bytes_by = network<sequential<convolution<12>, batch_norm<relu>, convolution<20, 3, 2>,
                                    batch_norm<relu>, global_average_pool, linear<5>>,
                         int8, emulated, Engine, extent{1, 8, 8}, 5>;

/// The gradients of one batch, tensor by tensor, and the loss; of bytes the ranges of what most
/// layers' inputs are.
struct stepped {
  std::vector<std::vector<double>> gradients;
  double loss = 0;
  std::vector<double> ranges;
};

template <class Net>
stepped step() {
  constexpr int samples = 3;
  const emulated where{1};
  const auto s = where.open();
  Net net{where};
  buffer<float, emulated> plane(where, net.plane_size()), gradients(where, net.plane_size());
  net.initialise(plane.span(), 1);
  if constexpr (Quantised<typename Net::precision>) net.quantisation.percentile = 90;
  auto image = net.make_image();
  net.publish(plane.span(), image, s);
  std::vector<std::uint8_t> pixels(samples * net.input.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
  const std::vector<std::int32_t> labels{3, 1, 4};
  batch<emulated> b;
  b.pixels = {pixels.data(), pixels.size()};
  b.labels = {labels.data(), labels.size()};
  b.global = b.count = samples;
  net.forward(image, plane.span(), b, phase::train, s);
  net.backward(
      image, gradients.span(), into::overwrite, [](std::size_t) {}, s);
  stepped out{.gradients = {}, .loss = net.read_score(s).mean_loss(), .ranges = {}};
  if constexpr (Quantised<typename Net::precision>) {
    auto& q = net.quantisation;
    q.fetch(where, s);
    out.ranges = q.watch.take(true);
    q.cut(out.ranges, q.watch.take_counts(true));
  }
  for (const segment& one : net.segments().first(net.tensors())) {
    const float* const first = gradients.span().data + one.offset;
    out.gradients.emplace_back(first, first + one.size);
  }
  return out;
}

/// `part`: how far a tensor of gradients may be, of its length.
template <class Mine, class Plain>
void steps_agree(double part) {
  const stepped mine = step<Mine>(), plain = step<Plain>();
  CHECK(mine.loss == doctest::Approx(plain.loss).epsilon(1e-3));
  REQUIRE(mine.gradients.size() == plain.gradients.size());
  for (std::size_t tensor = 0; tensor < plain.gradients.size(); ++tensor) {
    double off = 0, whole = 0;
    for (std::size_t i = 0; i < plain.gradients[tensor].size(); ++i) {
      off += std::pow(mine.gradients[tensor][i] - plain.gradients[tensor][i], 2);
      whole += std::pow(plain.gradients[tensor][i], 2);
    }
    CAPTURE(tensor);
    CHECK(whole > 0);
    CHECK(std::sqrt(off / whole) < part);
  }
  // Engines fill up their blocks of channels; of pixels both see the same.
  REQUIRE(mine.ranges.size() == plain.ranges.size());
  for (std::size_t k = 0; k < plain.ranges.size(); ++k)
    CHECK(mine.ranges[k] == doctest::Approx(plain.ranges[k]).epsilon(k < 2 ? 1e-12 : 0.02));
}

}  // namespace

TEST_CASE("ResNet-8 in half precision: engine wmma's step is engine reference's but for rounding") {
  steps_agree<halves<wmma>, halves<reference>>(1e-2);  // some units of 2^-11
}
TEST_CASE("int8: engine wmma's step is engine reference's but for bf16 backward") {
  // Some units of 2^-8, and numbers that round to the other byte.
  steps_agree<bytes_by<wmma>, bytes_by<reference>>(3e-2);
}
