// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/epilogue.hpp>

#include "tests/ops/engines/tensor_core/tiled.hpp"

using namespace cordee::detail::device;
using namespace support;

namespace {
template <class N>
using tile128 = tiled_fixture<N, detail::ops::tensor_core_tile<128, 2>>;

/// The statistics of y, (pixels, lanes), beside sums in double.
struct batch_statistics_fixture {
  std::size_t channels, lanes;
  std::vector<float> gamma = std::vector<float>(lanes, 1.5f),
                     saved = std::vector<float>(5 * lanes, 7),
                     mean = std::vector<float>(channels, 10), variance = mean;

  batch_statistics_fixture(std::size_t real, std::size_t padded) : channels(real), lanes(padded) {}
  [[nodiscard]] detail::ops::batch_statistics<float> target() {
    return {channels, gamma.data(), saved.data(), mean.data(), variance.data()};
  }
  void check(const std::vector<double>& y) const {
    const std::size_t pixels = y.size() / lanes;
    const auto n = static_cast<double>(pixels);
    for (std::size_t c = 0; c < lanes; ++c) {
      double sum = 0, squares = 0, low = y[c], high = low;
      for (std::size_t m = 0; m < pixels; ++m) {
        const double one = y[m * lanes + c];
        sum += one;
        low = std::min(low, one);
        high = std::max(high, one);
      }
      for (std::size_t m = 0; m < pixels; ++m) squares += std::pow(y[m * lanes + c] - sum / n, 2);
      // A chunk adds 128 distances to one of its numbers, below high - low, and their squares, in
      // fp32: at most 128 roundings of 2^-24 of each, thrice in the squared deviations. What is
      // stored is rounded to fp32.
      constexpr double unit = 0x1p-24, rounding = 128 * unit;
      const double width = high - low, want = squares / n, spread = 3 * rounding * width * width;
      CAPTURE(c);
      CHECK(std::abs(saved[c] - sum / n) <= rounding * width + unit * std::abs(sum / n));
      const double inverse = 1 / std::sqrt(want + 1e-5);
      // d(1 / sqrt(v)) = 1 / (2 v^(3/2)) dv
      const double off = inverse * (spread / (want + 1e-5) / 2 + 2 * unit);
      CHECK(std::abs(saved[lanes + c] - inverse) <= off);
      CHECK(std::abs(saved[2 * lanes + c] - 1.5 * inverse) <= 1.5 * off);
      CHECK(saved[3 * lanes + c] == 7);  // backward's
      if (c >= channels) continue;
      const double unbiased = pixels > 1 ? squares / (n - 1) : 0;
      CHECK(std::abs(mean[c] - (9 + 0.1 * sum / n)) <=
            0.1 * rounding * width + unit * std::abs(mean[c]));
      CHECK(std::abs(variance[c] - (9 + 0.1 * unbiased)) <= 0.2 * spread + unit * variance[c]);
    }
  }
};
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
    "epilogue: the statistics of the rounded y, in every tile, of one chunk and of many sets", N,
    half, bfloat) {
  // In tiles of 32, 64 and 128 filters, the last of two across;
  // of one pixel; of 9 chunks in 3 sets.
  for (const auto& [filters, stride, samples, seed] : {std::tuple{12, 1, 7, 1u},
                                                       {12, 1, 7, 2u},
                                                       {40, 2, 28, 3u},
                                                       {136, 1, 5, 4u},
                                                       {12, 5, 1, 5u},
                                                       {40, 1, 36, 6u}}) {
    const tiled_fixture<N> fixture{.p = {{5, 6, 5}, filters, 3, stride, stride == 5 ? 0 : 1},
                                   .samples = samples,
                                   .at = device_fixture{emulated{seed}}};
    const auto x = fixture.in_memory(fixture.x, fixture.p.in), weights = fixture.packed();
    auto y = fixture.output();
    batch_statistics_fixture of(static_cast<std::size_t>(filters),
                                size(tensor_core::block<N>(filters)));
    tensor_core::fprop<N>(fixture.p, samples, x.data(), weights.data(), y.data(), of.target(),
                          fixture.at.s);
    CHECK(fixture.numbers(y) == as<N>(fixture.exact_output(fixture.x)));
    of.check(to_doubles(y));
  }
}

TEST_CASE("epilogue: the statistics of an int8 layer's output, whose mean is large") {
  const convolution_problem p{{16, 9, 8}, 40, 1, 1, 0};
  constexpr int samples = 30;
  const auto s = emulated{}.make_stream();
  std::vector<std::uint8_t> x(samples * p.in.size());
  for (std::size_t i = 0; i < x.size(); ++i)  // between 100 and 103, but for the sixteenth channel
    x[i] = i % 16 == 15 ? 255 : static_cast<std::uint8_t>(100 + i * i / 16 % 4);
  const std::vector<std::int8_t> w(p.weights(), 127);
  std::vector<std::int8_t> packed(tensor_core::packed_bytes(p));
  tensor_core::pack_bytes(p, w.data(), packed.data(), s);
  const detail::ops::affine_quantizer<float> k{.scale = 0.5f, .inverse_scale = 2, .zero_point = 3};
  const std::vector<float> scales(40, 0.25f);
  batch_statistics_fixture of(40, size(tensor_core::block<float>(40)));
  std::vector<float> y(samples * p.out().pixels() * of.lanes, 99);
  tensor_core::fprop_bytes(p, samples, x.data(), &k, packed.data(), scales.data(), y.data(),
                           of.target(), s);
  of.check(to_doubles(y));
}

TEST_CASE("epilogue: without a target no statistics are written, and no counter is touched") {
  const tiled_fixture<half> fixture;
  const auto x = fixture.in_memory(fixture.x, fixture.p.in), weights = fixture.packed();
  auto y = fixture.output();
  tensor_core::fprop<half>(fixture.p, fixture.samples, x.data(), weights.data(), y.data(),
                           fixture.at.s);
  CHECK(fixture.numbers(y) == as<half>(fixture.exact_output(fixture.x)));
  batch_statistics_fixture of(12, 16);
  tensor_core::fprop<half>(fixture.p, 0, x.data(), weights.data(), y.data(), of.target(),
                           fixture.at.s);
  CHECK(of.saved == std::vector<float>(of.saved.size(), 7));
}
