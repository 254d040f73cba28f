// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/nn/int8_fixture.hpp"

using namespace cordee;
using namespace cordee::detail::nn;
using namespace cordee::detail::ops;
using namespace support;

namespace {

template <class E>
using odd = int8_fixture<E, convolution<20>, extent{17, 6, 5}>;
template <class E>
using strided = int8_fixture<E, convolution<16, 5, 2>, extent{16, 7, 8}>;
template <class E>
using first = int8_fixture<E, convolution<16>, extent{3, 6, 7}>;

}  // namespace

TEST_CASE_TEMPLATE("int8: equals a pass on simulated values bit by bit, with either engine", T,
                   odd<reference>, odd<direct>, strided<reference>, strided<direct>,
                   first<reference>, first<direct>) {
  T fixture(3);
  fixture.low() = -0.7f;
  fixture.high() = 0.9f;
  const auto in = fixture.as_integers();
  // Integers that fit in floats: their convolution in fp32 is exact in any order.
  harness<direct, float> fp32{T::p, 3};
  auto y = fp32.fprop(in.x, in.w);
  for (std::size_t i = 0; i < y.size(); ++i) {
    CHECK(std::abs(y[i]) < 0x1p24);
    y[i] = in.k.scale * in.scales[i / T::p.out().pixels() % size(T::p.filters)] *
           static_cast<float>(y[i]);
  }
  CHECK(fixture.forward() == y);
  CHECK(fixture.forward(phase::evaluate) == y);
}

TEST_CASE_TEMPLATE("int8: with scales that are powers of two, equals fp32 on dequantized operands",
                   T, odd<reference>, odd<direct>, first<direct>) {
  T fixture(2);
  auto w = random_numbers(T::p.weights(), 2);
  const std::size_t each = w.size() / size(T::p.filters);
  for (std::size_t f = 0; f < size(T::p.filters); ++f) w[f * each] = 127.0 / 64;
  fixture.weights(w);
  fixture.low() = -127.0f / 128;
  fixture.high() = 1;  // 255 steps of 1 / 128
  const auto in = fixture.as_integers();
  CHECK(in.k.scale == 0x1p-7f);
  CHECK(in.scales[0] == 0x1p-6f);
  auto dequantized = in;
  for (double& v : dequantized.w) v *= 0x1p-6;
  for (double& v : dequantized.x) v *= 0x1p-7;
  harness<direct, float> fp32{T::p, 2};
  CHECK(fixture.forward() == fp32.fprop(dequantized.x, dequantized.w));
}

TEST_CASE_TEMPLATE("int8: backward equals fp32 on dequantized operands, masked where x was clipped",
                   T, odd<reference>, odd<direct>, strided<direct>, first<direct>) {
  T fixture(3);
  fixture.low() = -0.5f;
  fixture.high() = 0.6f;
  fixture.forward();
  const auto in = fixture.as_integers();
  std::vector<double> w, x;
  for (std::size_t i = 0; i < in.w.size(); ++i)
    w.push_back(static_cast<float>(in.w[i]) * in.scales[i / (in.w.size() / size(T::p.filters))]);
  for (const double v : in.x) x.push_back(static_cast<float>(v) * in.k.scale);
  const auto dy = random_numbers(size(3) * T::p.out().size(), 5);
  harness<typename T::layer_backend::engine, float> fp32{T::p, 3};
  auto dx = fp32.dgrad(dy, w);
  const auto plain_x = plain(fixture.x, T::p.in, 3, fixture.in_block);
  std::size_t masked = 0;
  for (std::size_t i = 0; i < dx.size(); ++i)
    if (!in.k.in_range(static_cast<float>(plain_x[i]))) {
      dx[i] = 0;
      ++masked;
    }
  CHECK(masked > dx.size() / 4);
  CHECK(masked < dx.size() / 2 + dx.size() / 8);
  CHECK(fixture.backward(dy) == dx);
  const auto dw = fp32.wgrad(x, dy);
  CHECK(fixture.dw() == std::vector<float>(dw.begin(), dw.end()));
  const auto before = random_numbers(dx.size(), 6);
  for (std::size_t i = 0; i < dx.size(); ++i)
    dx[i] = static_cast<float>(before[i]) + static_cast<float>(dx[i]);
  CHECK(fixture.backward(dy, before) == dx);
}

TEST_CASE("int8: forward reads the packed parameters; a zero filter stays zero") {
  odd<direct> fixture(2);
  fixture.low() = -1;
  fixture.high() = 1;
  auto w = random_numbers(odd<direct>::p.weights(), 2);
  const std::size_t each = w.size() / 20;
  std::fill(w.begin(), w.begin() + static_cast<std::ptrdiff_t>(each), 0.0);
  fixture.weights(w);
  const auto before = fixture.forward();
  for (std::size_t i = 0; i < 30; ++i) CHECK(before[i] == 0);  // filter 0 of sample 0
  for (double& v : w) v = -v;
  fixture.weights(w);
  auto after = fixture.forward();
  for (double& v : after) v = -v;
  CHECK(after == before);
}

TEST_CASE_TEMPLATE("quantized_convolution: weights of 8, 4 and 2 bits, in closed form", P, int8,
                   low_bit_weights<4>, low_bit_weights<2>) {
  using model_type =
      network<sequential<convolution<1, 1>, batch_norm<>, global_average_pool, linear<2>>, P, cpu,
              reference, extent{2, 1, 1}, 2>;
  model_type net{cpu(1)};
  std::vector<float> plane(model_type::plane_size());
  const auto set = [&](std::string_view name, std::vector<float> numbers) {
    for (const segment& s : model_type::segments())
      if (s.name == name)
        std::ranges::copy(numbers, plane.begin() + static_cast<std::ptrdiff_t>(s.offset));
  };
  set("conv1.weight", {1, 0.45F});
  set("conv1.input_min", {0});
  set("conv1.input_max", {1});
  set("bn1.weight", {1});
  set("bn1.running_var", {1 - 1e-5F});
  set("fc.weight", {1, -1});
  const std::vector<std::uint8_t> pixels{255, 102};  // x = (1, 0.4)
  const std::vector<std::int32_t> labels{0};
  auto packed = net.make_packed_parameters();
  net.pack_parameters({plane.data(), plane.size()}, packed, {});
  net.forward(packed, {plane.data(), plane.size()},
              {{pixels.data(), 2}, {labels.data(), 1}, 1, 1, 1, {.scale = {1, 1}}}, phase::evaluate,
              {});
  // Of b bits 0.45 is round(0.45 L) / L, L = 2^(b-1) - 1.
  constexpr int bits = detail::precision::weight_bits<P>;
  const double weight = bits == 8 ? 57.0 / 127 : bits == 4 ? 3.0 / 7 : 0;
  CHECK(static_cast<double>(net.logits()[0]) == doctest::Approx(1 + 0.4 * weight).epsilon(1e-6));
}
