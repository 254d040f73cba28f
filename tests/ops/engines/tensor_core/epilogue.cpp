// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/epilogue.hpp>

#include "tests/ops/engines/tensor_core/tiled.hpp"

using namespace cordee::detail::device;
using namespace support;

namespace {
template <class N>
using tile64 = tiled_fixture<N, detail::ops::tensor_core_tile<64, 2>>;
template <class N>
using tile128 = tiled_fixture<N, detail::ops::tensor_core_tile<128, 2>>;
}  // namespace

TEST_CASE_TEMPLATE("epilogue: bias and ReLU, rounded once", T, tiled_fixture<half>,
                   tile128<bfloat>) {
  using N = typename T::number;
  const T fixture;
  std::vector<float> bias(16);  // of padded filters; 0 for the padding
  for (std::size_t k = 0; k < 12; ++k) bias[k] = static_cast<float>(k) - 6.5f;
  auto wanted = fixture.exact_output(fixture.x);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = std::max(0.0, wanted[i] + bias[i / fixture.p.out().pixels() % 12]);
  auto y = fixture.output();
  fixture.fprop(detail::ops::identity_prologue{},
                detail::ops::bias_relu_epilogue<N>{{y.data()}, bias.data()});
  CHECK(fixture.numbers(y) == as<N>(wanted));
}

TEST_CASE_TEMPLATE(
    "epilogue: sums of the rounded y and of its squares, per channel, after a prologue", T,
    tiled_fixture<half>, tile64<half>, tile128<half>, tiled_fixture<bfloat>, tile64<bfloat>,
    tile128<bfloat>) {
  using N = typename T::number;
  const affine_channels channels;
  for (const auto& [filters, stride] : {std::pair{12, 1}, {40, 2}}) {
    const T fixture{.p = {{5, 6, 5}, filters, 3, stride, 1}, .samples = 7 * stride * stride};
    const auto wanted = as<N>(fixture.exact_output(channels.of(fixture.x, fixture.p.in)));
    const std::size_t pixels = fixture.p.out().pixels(), all = size(fixture.samples) * pixels,
                      tiles = blocks_for(all, 128), n = size(filters),
                      lie = size(tensor_core::block<N>(filters));
    auto y = fixture.output();
    std::vector<float> sums(tiles * 2 * lie, 99);
    fixture.fprop(
        detail::ops::scale_bias_relu_prologue<N>{{}, channels.scale.data(), channels.bias.data()},
        detail::ops::statistics_epilogue<N>{{y.data()}, sums.data(), static_cast<int>(lie)});
    CHECK(fixture.numbers(y) == wanted);
    for (std::size_t tile = 0; tile < tiles; ++tile)
      for (std::size_t k = 0; k < lie; ++k) {
        double sum = 0, magnitude = 0, square = 0;
        for (std::size_t m = tile * 128; k < n && m < std::min(all, tile * 128 + 128); ++m) {
          const double one = wanted[(m / pixels * n + k) * pixels + m % pixels];
          sum += one;
          magnitude += std::abs(one);
          square += one * one;
        }
        // A square and 127 additions of 128 numbers in fp32, in any order: at most 128 roundings
        // of 2^-24 for each number. A channel of padding has exactly 0.
        constexpr double rounding = 128 * 0x1p-24;
        CHECK(std::abs(sums[2 * tile * lie + k] - sum) <= rounding * magnitude);
        CHECK(std::abs(sums[(2 * tile + 1) * lie + k] - square) <= rounding * square);
      }
  }
}
