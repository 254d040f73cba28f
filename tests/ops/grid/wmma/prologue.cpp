// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/grid/wmma/prologue.hpp>

#include "tests/ops/grid/wmma/tiled.hpp"

using namespace support;

namespace {

/// Scale and bias of every channel in memory: what fills is scaled and shifted too, and has no
/// weight; a shift up shows where zeros outside of the image are taken for pixels.
struct affine_channels {
  std::vector<float> scale{1, -1, 2, 0.5, 1, 3, 3, 3}, bias{1, 0.5, -1, 2, 0, 7, 7, 7};

  [[nodiscard]] std::vector<double> of(std::vector<double> x, const extent& e) const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i / e.pixels() % size(e.channels);
      x[i] = std::max(0.0, scale[c] * x[i] + bias[c]);
    }
    return x;
  }
};

}  // namespace

TEST_CASE("prologue: scale, bias and ReLU of what a convolution reads, and zero stays outside") {
  const tiled by;
  const affine_channels to;
  const auto changed = to.of(by.x, by.p.in);
  REQUIRE(as<half>(changed) == changed);
  auto y = by.room();
  by.correlate(scale_bias_relu<half>{{}, to.scale.data(), to.bias.data()}, stored<half>{y.data()});
  CHECK(by.numbers(y) == as<half>(by.exact(changed)));
}

TEST_CASE("prologue: the weight gradient sees what the convolution saw") {
  const tiled by;
  const affine_channels to;
  const auto gradient = [&](const std::vector<double>& x, const auto& before) {
    const auto from = by.in_memory(x, by.p.in),
               dy = by.in_memory(short_numbers<half>(size(by.samples) * by.p.out().size(), 3),
                                 by.p.out());
    std::vector<float> dw(by.p.weights(), 99);
    std::vector<half> room(wmma::workspace<half>(by.p, by.samples, by.at.s));
    wmma::wgrad<half>(by.p, by.samples, from.data(), dy.data(), before, dw.data(), into::overwrite,
                      room.data(), by.at.s);
    return dw;
  };
  CHECK(gradient(by.x, scale_bias_relu<half>{{}, to.scale.data(), to.bias.data()}) ==
        gradient(to.of(by.x, by.p.in), as_it_is{}));
}

TEST_CASE("prologue: what is no number stays so") {
  const float one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  alignas(16) half x[8] = {{0x7e00}, {0xfc00}};
  scale_bias_relu<half>{{}, one, one}.change(0, reinterpret_cast<std::byte*>(x));
  CHECK(x[0].exact() != x[0].exact());
  CHECK(x[1].exact() == 0);
  CHECK(x[2].exact() == 1);
}
