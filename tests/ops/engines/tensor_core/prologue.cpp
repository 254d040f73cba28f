// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/prologue.hpp>

#include "tests/ops/engines/tensor_core/tiled.hpp"

using namespace support;

TEST_CASE_TEMPLATE(
    "prologue: scale, bias and ReLU of the inputs, with zeros in the padding around an image", N,
    half, bfloat) {
  const tiled_fixture<N> fixture;
  const affine_channels channels;
  const auto changed = channels.of(fixture.x, fixture.p.in);
  REQUIRE(as<N>(changed) == changed);
  auto y = fixture.output();
  fixture.fprop(
      detail::ops::scale_bias_relu_prologue<N>{{}, channels.scale.data(), channels.bias.data()},
      detail::ops::store_epilogue<N>{y.data()});
  CHECK(fixture.numbers(y) == as<N>(fixture.exact_output(changed)));
}

TEST_CASE_TEMPLATE(
    "prologue: the weight gradient uses the same transformed inputs as fprop, in every tile", N,
    half, bfloat) {
  const affine_channels channels;
  for (const auto& [filters, stride] : {std::pair{12, 1}, {40, 2}, {72, 1}}) {
    const tiled_fixture<N> fixture{.p = {{5, 6, 5}, filters, 3, stride, 1}};
    const auto gradient = [&](const std::vector<double>& x, const auto& before) {
      const auto from = fixture.in_memory(x, fixture.p.in),
                 dy = fixture.in_memory(
                     short_numbers<N>(size(fixture.samples) * fixture.p.out().size(), 3),
                     fixture.p.out());
      std::vector<float> dw(fixture.p.weights(), 99);
      std::vector<N> room(tensor_core::workspace<N>(fixture.p, fixture.samples, fixture.at.s));
      tensor_core::wgrad<N>(fixture.p, fixture.samples, from.data(), dy.data(), before, dw.data(),
                            write_mode::overwrite, room.data(), fixture.at.s);
      return dw;
    };
    CHECK(gradient(fixture.x,
                   detail::ops::scale_bias_relu_prologue<N>{
                       {}, channels.scale.data(), channels.bias.data()}) ==
          gradient(channels.of(fixture.x, fixture.p.in), detail::ops::identity_prologue{}));
  }
}

TEST_CASE("prologue: NaN stays NaN") {
  const float one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  alignas(16) half x[8] = {{0x7e00}, {0xfc00}};
  detail::ops::scale_bias_relu_prologue<half>{{}, one, one}.transform(
      0, reinterpret_cast<std::byte*>(x));
  CHECK(x[0].exact() != x[0].exact());
  CHECK(x[1].exact() == 0);
  CHECK(x[2].exact() == 1);
}
