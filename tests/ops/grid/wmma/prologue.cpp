// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/grid/wmma/prologue.hpp>

#include "tests/ops/grid/wmma/tiled.hpp"

using namespace support;

TEST_CASE_TEMPLATE(
    "prologue: scale, bias and ReLU of what a convolution reads, and zero stays outside", N, half,
    bfloat) {
  const tiled<N> by;
  const affine_channels to;
  const auto changed = to.of(by.x, by.p.in);
  REQUIRE(as<N>(changed) == changed);
  auto y = by.room();
  by.correlate(scale_bias_relu<N>{{}, to.scale.data(), to.bias.data()}, stored<N>{y.data()});
  CHECK(by.numbers(y) == as<N>(by.exact(changed)));
}

TEST_CASE_TEMPLATE("prologue: the weight gradient sees what the convolution saw, in every tile", N,
                   half, bfloat) {
  const affine_channels to;
  for (const auto& [filters, stride] : {std::pair{12, 1}, {40, 2}, {72, 1}}) {
    const tiled<N> by{.p = {{5, 6, 5}, filters, 3, stride, 1}};
    const auto gradient = [&](const std::vector<double>& x, const auto& before) {
      const auto from = by.in_memory(x, by.p.in),
                 dy = by.in_memory(short_numbers<N>(size(by.samples) * by.p.out().size(), 3),
                                   by.p.out());
      std::vector<float> dw(by.p.weights(), 99);
      std::vector<N> room(wmma::workspace<N>(by.p, by.samples, by.at.s));
      wmma::wgrad<N>(by.p, by.samples, from.data(), dy.data(), before, dw.data(), into::overwrite,
                     room.data(), by.at.s);
      return dw;
    };
    CHECK(gradient(by.x, scale_bias_relu<N>{{}, to.scale.data(), to.bias.data()}) ==
          gradient(to.of(by.x, by.p.in), as_it_is{}));
  }
}

TEST_CASE("prologue: what is no number stays so") {
  const float one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  alignas(16) half x[8] = {{0x7e00}, {0xfc00}};
  scale_bias_relu<half>{{}, one, one}.change(0, reinterpret_cast<std::byte*>(x));
  CHECK(x[0].exact() != x[0].exact());
  CHECK(x[1].exact() == 0);
  CHECK(x[2].exact() == 1);
}
