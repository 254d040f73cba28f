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

/// The gradients of one batch, tensor by tensor, and the loss.
struct stepped {
  std::vector<std::vector<double>> gradients;
  double loss = 0;
};

template <class P, class Engine>
stepped step() {
  constexpr int samples = 3;
  const emulated where{1};
  const auto s = where.open();
  using net_of = resnet<8, P, emulated, shape{.image = {1, 8, 8}, .zero_gamma = false}, Engine>;
  net_of net{where};
  buffer<float, emulated> plane(where, net.plane_size()), gradients(where, net.plane_size());
  net.initialise(plane.span(), 1);
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
  stepped out{.gradients = {}, .loss = net.read_score(s).mean_loss()};
  for (const segment& one : net.segments().first(net.tensors())) {
    const float* const first = gradients.span().data + one.offset;
    out.gradients.emplace_back(first, first + one.size);
  }
  return out;
}

/// `part`: how far a tensor of gradients may be, of its length.
template <class P>
void steps_agree(double part) {
  const stepped mine = step<P, wmma>(), plain = step<P, reference>();
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
}

}  // namespace

TEST_CASE("ResNet-8 in half precision: engine wmma's step is engine reference's but for rounding") {
  steps_agree<fp16>(1e-2);  // some units of 2^-11
}
TEST_CASE("ResNet-8 in int8: engine wmma's step is engine reference's but for bf16 backward") {
  steps_agree<int8>(3e-2);  // of 2^-8, and numbers that round to the other byte
}
