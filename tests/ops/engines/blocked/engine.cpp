// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `blocked` passes the laws of engines, on registers of two sizes;
// its shapes are in ../shapes.cpp.
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/blocked/engine.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

#include "tests/support/engine_laws.hpp"
#include "tests/support/further_types.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

ENGINE_LAWS(engine_of<cordee::blocked, float>,
            engine_of<blocked_with<16>, float> FURTHER_TYPES(, engine_of<cordee::blocked, double>));

static_assert(!ConvolutionEngine<cordee::blocked, int>);
static_assert(!ConvolutionEngine<cordee::blocked, half, float> &&
              !ConvolutionEngine<cordee::blocked, bfloat, float>);

TEST_CASE("blocked: a block is one register, for a single channel too") {
  for (const int channels : {1, 3, 4, 5, 16, 17}) {
    CHECK(blocked_with<32>::block<float>(channels) == 8);
    CHECK(blocked_with<16>::block<double>(channels) == 2);
  }
}

TEST_CASE("blocked: packed weights are (K/V, C, R, S, V)") {
  constexpr std::size_t V = 4, filters = 6, channels = 5, taps = 9;
  const convolution_problem p{{channels, 6, 6}, filters, 3, 1, 1};
  std::vector<double> w(p.weights());
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i + 1);
  std::vector<float> wanted(2 * V * channels * taps);
  for (std::size_t k = 0; k < filters; ++k)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t tap = 0; tap < taps; ++tap)
        wanted[((k / V * channels + c) * taps + tap) * V + k % V] =
            static_cast<float>((k * channels + c) * taps + tap + 1);
  const auto packed = harness<blocked_with<16>, float>{p}.packed(w);
  CHECK(std::vector<float>(packed.begin(), packed.end()) == wanted);
}

TEST_CASE("blocked: a NaN reaches the sums that it is part of, and no others") {
  const convolution_problem p{{5, 6, 7}, 9, 3, 2, 1};
  const std::size_t pixel = 8;  // row 1, column 1 of channel 0
  auto x = random_numbers(p.in.size(), 1);
  const auto w = random_numbers(p.weights(), 2);
  std::vector<bool> reached(p.out().size());
  for_each_product(p, 1, [&](std::size_t, std::size_t ix, std::size_t iy) {
    if (ix == pixel) reached[iy] = true;
  });
  x[pixel] = std::nan("");
  const auto y = harness<cordee::blocked, float>{p}.fprop(x, w);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == reached[i]);
}
