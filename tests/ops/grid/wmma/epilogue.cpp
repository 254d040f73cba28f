// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/grid/wmma/epilogue.hpp>

#include "tests/ops/grid/wmma/tiled.hpp"

using namespace support;

namespace {
template <class N>
using middle = tiled<N, detail::wmma_tile<64, 2>>;
template <class N>
using broad = tiled<N, detail::wmma_tile<128, 2>>;
}  // namespace

TEST_CASE_TEMPLATE("epilogue: bias and ReLU of the sums, rounded once", T, tiled<half>,
                   broad<bfloat>) {
  using N = typename T::number;
  const T by;
  std::vector<float> bias(16);  // of filters in memory; what fills has none
  for (std::size_t k = 0; k < 12; ++k) bias[k] = static_cast<float>(k) - 6.5f;
  auto wanted = by.exact(by.x);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = std::max(0.0, wanted[i] + bias[i / by.p.out().pixels() % 12]);
  auto y = by.room();
  by.correlate(as_it_is{}, bias_relu<N>{{y.data()}, bias.data()});
  CHECK(by.numbers(y) == as<N>(wanted));
}

TEST_CASE_TEMPLATE(
    "epilogue: sums of y and of its squares, by channel, as it was rounded, behind a prologue", T,
    tiled<half>, middle<half>, broad<half>, tiled<bfloat>, middle<bfloat>, broad<bfloat>) {
  using N = typename T::number;
  const affine_channels to;
  for (const auto& [filters, stride] : {std::pair{12, 1}, {40, 2}}) {
    const T by{.p = {{5, 6, 5}, filters, 3, stride, 1}, .samples = 7 * stride * stride};
    const auto wanted = as<N>(by.exact(to.of(by.x, by.p.in)));
    const std::size_t pixels = by.p.out().pixels(), all = size(by.samples) * pixels,
                      tiles = blocks_for(all, 128), n = size(filters),
                      lie = size(wmma::block<N>(filters));
    auto y = by.room();
    std::vector<float> sums(tiles * 2 * lie, 99);
    by.correlate(scale_bias_relu<N>{{}, to.scale.data(), to.bias.data()},
                 stored_with_sums<N>{{y.data()}, sums.data(), static_cast<int>(lie)});
    CHECK(by.numbers(y) == wanted);
    for (std::size_t tile = 0; tile < tiles; ++tile)
      for (std::size_t k = 0; k < lie; ++k) {
        double sum = 0, square = 0;
        for (std::size_t m = tile * 128; k < n && m < std::min(all, tile * 128 + 128); ++m) {
          const double one = wanted[(m / pixels * n + k) * pixels + m % pixels];
          sum += one;
          square += one * one;
        }
        CHECK(sums[2 * tile * lie + k] == doctest::Approx(sum).epsilon(1e-6));
        CHECK(sums[(2 * tile + 1) * lie + k] == doctest::Approx(square).epsilon(1e-6));
      }
  }
}
