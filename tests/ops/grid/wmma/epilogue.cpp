// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/grid/wmma/epilogue.hpp>

#include "tests/ops/grid/wmma/tiled.hpp"

using namespace support;

TEST_CASE("epilogue: bias and ReLU of the sums, rounded once") {
  const tiled by;
  std::vector<float> bias(16);  // of filters in memory; what fills has none
  for (std::size_t k = 0; k < 12; ++k) bias[k] = static_cast<float>(k) - 6.5f;
  auto wanted = by.exact(by.x);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = std::max(0.0, wanted[i] + bias[i / by.p.out().pixels() % 12]);
  auto y = by.room();
  by.correlate(as_it_is{}, bias_relu<half>{{y.data()}, bias.data()});
  CHECK(by.numbers(y) == as<half>(wanted));
}

TEST_CASE("epilogue: sums of y and of its squares, by channel, as it was rounded") {
  const tiled by;
  const auto wanted = as<half>(by.exact(by.x));
  const std::size_t pixels = by.p.out().pixels(), tiles = blocks_for(7 * pixels, 128);
  auto y = by.room();
  std::vector<float> sums(tiles * 2 * 16, 99);
  by.correlate(as_it_is{}, stored_with_sums<half>{{y.data()}, sums.data(), 16});
  CHECK(by.numbers(y) == wanted);
  for (std::size_t tile = 0; tile < tiles; ++tile)
    for (std::size_t k = 0; k < 16; ++k) {
      double sum = 0, square = 0;
      for (std::size_t m = tile * 128; k < 12 && m < std::min(7 * pixels, tile * 128 + 128); ++m) {
        const double one = wanted[(m / pixels * 12 + k) * pixels + m % pixels];
        sum += one;
        square += one * one;
      }
      CHECK(sums[2 * tile * 16 + k] == doctest::Approx(sum).epsilon(1e-6));
      CHECK(sums[(2 * tile + 1) * 16 + k] == doctest::Approx(square).epsilon(1e-6));
    }
}
