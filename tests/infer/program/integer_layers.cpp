// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/infer/program/integer_layers.hpp>

#include "tests/infer/refuses_floats.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::fixed_point;
using support::refuses_floats;

namespace {

using definition = integer_reference<>;
constexpr const std::int32_t* no_residual = nullptr;

/// A convolution with random integers; steps of its input, weights and output are given.
struct random_layer {
  explicit random_layer(const convolution_problem& p, int zero_point) {
    random_sequence draw(3, purpose::test, 0, 0);
    layer.problem = p;
    layer.zero_point = zero_point;
    layer.bias_shift = 8;
    for (std::size_t i = 0; i < p.weights(); ++i)
      layer.weights.push_back(static_cast<std::int8_t>(static_cast<int>(draw.below(255)) - 127));
    for (int k = 0; k < p.filters; ++k) {
      layer.bias.push_back(static_cast<std::int32_t>(draw.below(4000)) - 2000);
      weight_steps.push_back(0.001 + 0.001 * draw.uniform());
      layer.factors.push_back(fixed_point::from_real(weight_steps.back()));
    }
    for (std::size_t i = 0; i < p.in.size(); ++i)
      x.push_back(static_cast<std::uint8_t>(draw.below(256)));
    for (std::size_t i = 0; i < p.out().size(); ++i)
      residual.push_back(static_cast<std::int32_t>(static_cast<int>(draw.below(2000)) - 1000));
  }
  /// The exact value before rounding.
  [[nodiscard]] double exact(int k, int i, int j) const {
    const convolution_problem& p = layer.problem;
    double sum = 0;
    for (int c = 0; c < p.in.channels; ++c)
      for (int r = 0; r < p.window; ++r)
        for (int s = 0; s < p.window; ++s) {
          const int h = i * p.stride + r - p.padding, l = j * p.stride + s - p.padding;
          const bool inside = h >= 0 && h < p.in.height && l >= 0 && l < p.in.width;
          const int q = inside ? x[static_cast<std::size_t>((c * p.in.height + h) * p.in.width + l)]
                               : layer.zero_point;
          const std::size_t w =
              static_cast<std::size_t>(((k * p.in.channels + c) * p.window + r) * p.window + s);
          sum += static_cast<double>(layer.weights[w]) * (q - layer.zero_point);
        }
    const auto f = static_cast<std::size_t>(k);
    return sum * weight_steps[f] + layer.bias[f] / 256.0;
  }

  integer_convolution layer;
  std::vector<double> weight_steps;
  std::vector<std::uint8_t> x;
  std::vector<std::int32_t> residual;
};

}  // namespace

TEST_CASE("integer convolution: the worked dot product of a quantized convolution") {
  // Signed bytes -5 and 3 as zero points are 123 and 131 of unsigned ones.
  integer_convolution c;
  c.problem = {{4, 1, 1}, 1};
  c.zero_point = 123;
  c.weights = {3, -7, 100, -127};
  c.bias = {25};  // of 6.25, which is 0.25 / 0.04
  c.bias_shift = 2;
  c.factors = {fixed_point::from_real(0.0025)};
  c.offset = 131;
  const std::array<std::uint8_t, 4> x{138, 108, 255, 0};
  std::uint8_t y = 0;
  definition::convolution(c, x.data(), no_residual, &y);
  CHECK(y == 82 + 128);
  c.factors = {fixed_point::from_real(1)};
  c.bias = {2500};
  c.bias_shift = 0;
  c.low = -largest_bias;
  c.high = largest_bias;
  c.offset = 0;
  std::int32_t sum = 0;
  definition::convolution(c, x.data(), no_residual, &sum);
  CHECK(sum == 31471);
}

TEST_CASE("integer convolution: within half a step of the real one, clipped, padded by its zero") {
  for (const int stride : {1, 2})
    for (const int window : {1, 3}) {
      random_layer r({{3, 5, 4}, 7, window, stride, window / 2}, 100);
      r.layer.offset = 20;
      const extent out = r.layer.problem.out();
      std::vector<std::uint8_t> y(out.size());
      definition::convolution(r.layer, r.x.data(), no_residual, y.data());
      std::size_t at = 0;
      for (int k = 0; k < out.channels; ++k)
        for (int i = 0; i < out.height; ++i)
          for (int j = 0; j < out.width; ++j, ++at) {
            const double real = std::clamp(r.exact(k, i, j) + 20, 0.0, 255.0);
            CHECK(std::abs(y[at] - real) <= 0.5 + 255 * 0x1p-30);  // the multiplier has 31 bits
          }
    }
}

TEST_CASE("integer convolution: a residual is rescaled and added before the clipping") {
  random_layer r({{2, 4, 4}, 3, 3, 1, 1}, 0);
  r.layer.low = 0;  // a rectifier
  r.layer.high = 32767;
  r.layer.residual_factor = fixed_point::from_real(0.75);
  const extent out = r.layer.problem.out();
  std::vector<std::int32_t> y(out.size());
  definition::convolution(r.layer, r.x.data(), r.residual.data(), y.data());
  std::size_t at = 0, clipped = 0;
  for (int k = 0; k < out.channels; ++k)
    for (int i = 0; i < out.height; ++i)
      for (int j = 0; j < out.width; ++j, ++at) {
        const double real = std::max(0.0, r.exact(k, i, j) + 0.75 * r.residual[at]);
        CHECK(std::abs(y[at] - real) <= 1 + 32768 * 0x1p-30);  // two roundings
        clipped += real == 0;
      }
  CHECK(clipped > 0);
}

TEST_CASE("integer convolution: an input of 32 bits is rounded to bytes and clipped to them") {
  integer_convolution c;
  c.problem = {{1, 1, 1}, 1};
  c.zero_point = 10;
  c.input_factor = fixed_point::from_real(1.0 / residual_steps);
  constexpr std::int32_t half = residual_steps / 2;
  CHECK(c.byte_of<std::int64_t>(std::int32_t{0}) == 10);
  CHECK(c.byte_of<std::int64_t>(half - 1) == 10);
  CHECK(c.byte_of<std::int64_t>(half) == 11);
  CHECK(c.byte_of<std::int64_t>(-half) == 10);
  CHECK(c.byte_of<std::int64_t>(-half - 1) == 9);
  CHECK(c.byte_of<std::int64_t>(wide_limit) == 255);
  CHECK(c.byte_of<std::int64_t>(-wide_limit) == 0);
}

TEST_CASE("integer layers: pools, subsampling and classifier of a few numbers") {
  const std::array<std::int32_t, 4> x{-3, -9, -4, -8};
  std::int32_t largest = 0;
  definition::max_pool<std::int32_t>({{1, 2, 2}, 3, 2, 1}, x.data(), &largest);
  CHECK(largest == -3);

  const std::array<std::int32_t, 9> image{1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::array<std::int32_t, 12> wider{};
  definition::subsample({{1, 3, 3}, {3, 2, 2}}, image.data(), wider.data());
  CHECK(wider == std::array<std::int32_t, 12>{0, 0, 0, 0, 1, 3, 7, 9, 0, 0, 0, 0});

  const std::array<std::int32_t, 8> pixels{1, 1, 0, 0, -1, -1, -1, -4};
  std::array<std::int32_t, 2> means{};
  definition::mean({2, 2, 2}, pixels.data(), means.data());
  CHECK(means == std::array<std::int32_t, 2>{1, -2});  // 0.5 and -1.75

  const integer_classifier c{2,       2, {3, -2, 127, 1},
                             {5, -1}, 1, {fixed_point::from_real(1), fixed_point::from_real(0.5)}};
  const std::array<std::int32_t, 2> features{10, 4};
  std::array<std::int32_t, 2> logits{};
  definition::classifier(c, features.data(), logits.data());
  CHECK(logits == std::array<std::int32_t, 2>{14, 319});  // (27 >> 1 up), (1273 >> 1 up) / 2 up
}

TEST_CASE("integer layers: no operation makes or reads a floating-point number") {
  using exact = integer_reference<refuses_floats>;
  CHECK_THROWS_AS(static_cast<void>(refuses_floats{1} * refuses_floats{0.5f}),
                  support::found_a_float);
  CHECK_THROWS_AS(static_cast<void>(static_cast<float>(refuses_floats{1})), support::found_a_float);

  random_layer r({{3, 5, 4}, 4, 3, 1, 1}, 100);
  r.layer.input_factor = fixed_point::from_real(1.0 / residual_steps);
  r.layer.residual_factor = fixed_point::from_real(0.75);
  const std::size_t size = r.layer.problem.out().size();
  const auto check = [&]<class In, class Out>(const In* x, const std::int32_t* residual, Out) {
    std::vector<Out> y(size), expected(size);
    exact::convolution(r.layer, x, residual, y.data());
    definition::convolution(r.layer, x, residual, expected.data());
    CHECK(y == expected);
  };
  check(r.x.data(), nullptr, std::uint8_t{});
  check(r.x.data(), r.residual.data(), std::int32_t{});
  check(r.residual.data(), r.residual.data(), std::int32_t{});
  check(r.residual.data(), nullptr, std::int32_t{});

  const integer_batch_norm n{.in = {2, 1, 2},
                             .multiplier = {3, -5},
                             .addend = {4, 1},
                             .shift = 2,
                             .residual_factor = fixed_point::from_real(0.5),
                             .offset = 2,
                             .low = -9};
  const std::array<std::int32_t, 4> sums{-5, 2, 7, -norm_limit};
  std::array<std::int32_t, 4> normalized{};
  exact::batch_norm(n, sums.data(), sums.data(), normalized.data());
  CHECK(normalized == std::array<std::int32_t, 4>{-3, 5, -3, 255});

  const integer_classifier c{2,       2, {3, -2, 127, 1},
                             {5, -1}, 1, {fixed_point::from_real(1), fixed_point::from_real(0.5)}};
  const std::array<std::int32_t, 8> pixels{1, 1, 0, 0, -1, -1, -1, -4};
  std::array<std::int32_t, 2> means{}, logits{};
  exact::mean({2, 2, 2}, pixels.data(), means.data());
  exact::classifier(c, means.data(), logits.data());
  CHECK(means == std::array<std::int32_t, 2>{1, -2});
}
