// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/quantize.hpp>

#include "tests/support/quantization_goldens.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;

TEST_CASE("fit_affine: the worked range [-1, 3], signed and unsigned") {
  const auto k = fit_affine(-1.0, 3.0, signed_bytes);
  CHECK(k.scale == 0.01568627450980392);
  CHECK(k.zero_point == -64);
  const std::array x{-1.5, -1.0, -.004, 0.0, .0078, .5, 1.0, 2.999, 3.0, 3.5};
  const std::array q{-128, -128, -64, -64, -64, -32, 0, 127, 127, 127};
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(k.quantize(x[i]) == q[i]);
  CHECK(k.dequantize(127) == doctest::Approx(2.99607843137).epsilon(1e-11));
  CHECK(k.dequantize(-128) == doctest::Approx(-1.00392156863).epsilon(1e-11));
  const auto u = fit_affine(-1.0, 3.0, unsigned_bytes);
  CHECK(u.scale == k.scale);
  CHECK(u.zero_point == 64);
  const auto f = fit_affine(-1.0f, 3.0f, unsigned_bytes);
  CHECK(f.scale == static_cast<float>(k.scale));
  CHECK(f.inverse_scale == 1 / f.scale);
  CHECK(f.zero_point == 64);
}

TEST_CASE_TEMPLATE("affine_quantizer: zero is exact, and numbers in range change by at most a step",
                   Real, float, double) {
  for (const integer_range to : {unsigned_bytes, signed_bytes})
    for (const auto& [a, b] : std::vector<std::pair<Real, Real>>{
             {-1, 3}, {0, 6}, {-4, 0}, {Real(-.1), Real(.2)}, {-1000, 1}, {Real(1e-20), 7}}) {
      const auto k = fit_affine(a, b, to);
      CHECK(k.fake_quantize(0) == 0);
      CHECK(k.quantize(0) == k.zero_point);
      CHECK(k.zero_point >= to.low);
      CHECK(k.zero_point <= to.high);
      for (int i = 0; i <= 1000; ++i) {
        const Real x = a + (b - a) * static_cast<Real>(i) / 1000;
        CHECK(std::abs(k.fake_quantize(x) - x) <=
              k.scale * Real(1.0001));  // half a step, and half for the rounding of the zero point
        CHECK(k.quantize(k.fake_quantize(x)) == k.quantize(x));
      }
    }
}

TEST_CASE("fit_affine: a range without zero is extended to hold it") {
  CHECK(fit_affine(2.0f, 5.1f, unsigned_bytes).zero_point == 0);
  CHECK(fit_affine(2.0f, 5.1f, unsigned_bytes).scale == fit_affine(0.0f, 5.1f, {}).scale);
  CHECK(fit_affine(-5.1f, -2.0f, unsigned_bytes).zero_point == 255);
  CHECK(fit_affine(-5.1f, -2.0f, signed_bytes).zero_point == 127);
}

TEST_CASE_TEMPLATE("fit_affine: degenerate, tiny, huge, empty and infinite ranges", Real, float,
                   double) {
  using limits = std::numeric_limits<Real>;
  const auto zero = fit_affine(Real{0}, Real{0}, unsigned_bytes);
  CHECK(zero.scale == 1);
  CHECK(zero.zero_point == 0);
  CHECK(zero.fake_quantize(0) == 0);
  CHECK(fit_affine(Real{-0.0}, Real{0}, signed_bytes).zero_point == 0);
  // The inverse scale does not overflow, and zero stays zero.
  for (const Real tiny : {limits::denorm_min(), limits::min(), limits::min() * 100}) {
    const auto k = fit_affine(-tiny, tiny, unsigned_bytes);
    CHECK(std::isfinite(k.inverse_scale));
    CHECK(k.fake_quantize(0) == 0);
    CHECK(std::abs(k.fake_quantize(tiny)) <= 2 * limits::min() + tiny);
  }
  const auto wide = fit_affine(-limits::max() / 2, limits::max() / 4, unsigned_bytes);
  CHECK(std::isfinite(wide.scale));
  CHECK(wide.zero_point == 170);
  CHECK(wide.fake_quantize(0) == 0);
  const Real inf = limits::infinity(), nan = limits::quiet_NaN();
  for (const auto& [a, b] : std::vector<std::pair<Real, Real>>{
           {inf, -inf}, {-1, inf}, {-inf, 1}, {nan, 1}, {-1, nan}, {nan, nan}, {2, 1}}) {
    const auto k = fit_affine(a, b, unsigned_bytes);
    CHECK(std::isnan(k.scale));
    CHECK(std::isnan(k.fake_quantize(1)));
    CHECK(k.zero_point >= 0);
    CHECK(k.quantize(1) >= 0);
    CHECK(k.quantize(1) <= 255);
    CHECK_FALSE(k.in_range(1));
  }
}

TEST_CASE("affine_quantizer: infinities are clipped, NaN is the lowest integer") {
  const auto k = fit_affine(-1.0f, 3.0f, unsigned_bytes);
  using limits = std::numeric_limits<float>;
  CHECK(k.quantize(limits::infinity()) == 255);
  CHECK(k.quantize(-limits::infinity()) == 0);
  CHECK(k.quantize(limits::max()) == 255);
  CHECK(k.quantize(limits::quiet_NaN()) == 0);
  for (const float x : {limits::infinity(), -limits::infinity(), limits::quiet_NaN()})
    CHECK_FALSE(k.in_range(x));
}

TEST_CASE("fit_affine: a zero point is clipped to the range") {
  // One end is almost zero: rounding must not move the zero point out of the range.
  for (const float b : {1.0f, 3.0f, 255.0f, 0.3f}) {
    CHECK(fit_affine(-1e-9f * b, b, unsigned_bytes).zero_point == 0);
    CHECK(fit_affine(-b, 1e-9f * b, unsigned_bytes).zero_point == 255);
    CHECK(fit_affine(-b, 1e-9f * b, signed_bytes).zero_point == 127);
  }
}

TEST_CASE("affine_quantizer: rounds half to even") {
  const affine_quantizer<float> k{
      1, 1, 3, unsigned_bytes};  // odd zero point: it is x that is rounded, not x + z
  for (int i = -3; i < 100; ++i) {
    const float x = static_cast<float>(i) + 0.5f;
    CHECK(k.quantize(x) == std::max(0, static_cast<int>(std::nearbyint(x)) + 3));
  }
}

TEST_CASE("in_range: decided by the rounded number before clipping, bounds included") {
  const affine_quantizer<double> k{1, 1, 4, {0, 9}};  // x from -4 to 5
  const auto expected = [](double x) {
    const double r = std::nearbyint(x) + 4;
    return 0 <= r && r <= 9;
  };
  for (int i = -200; i <= 200; ++i)
    for (const double x :
         {i / 16.0, std::nextafter(i / 16.0, -99.0), std::nextafter(i / 16.0, 99.0)})
      CHECK(k.in_range(x) == expected(x));
  CHECK(k.in_range(-4.5));  // a tie, to the even -4
  CHECK_FALSE(k.in_range(std::nextafter(-4.5, -5.0)));
  CHECK_FALSE(k.in_range(5.5));  // to the even 6
  CHECK(k.in_range(std::nextafter(5.5, 5.0)));
}

TEST_CASE(
    "quantize_channel: the scale is the largest magnitude / 127, exact in the worked examples") {
  const std::vector<double> w{0.5, -1.27, 0.3};
  std::vector<std::int8_t> q(3);
  CHECK(quantize_channel<double>(3, w.data(), q.data()) == 0.01);
  CHECK(q == std::vector<std::int8_t>{50, -127, 30});
  const std::vector<double> v{0.02, 0.01, -0.005};
  CHECK(quantize_channel<double>(3, v.data(), q.data()) == 0.02 / 127);
  CHECK(q == std::vector<std::int8_t>{127, 64, -32});
  const std::vector<float> f{0.02f, 0.01f, -0.005f};
  quantize_channel<float>(3, f.data(), q.data());
  CHECK(q == std::vector<std::int8_t>{127, 64, -32});
}

TEST_CASE(
    "quantize_channel: never -128; channels of zeros, tiny numbers and infinities are defined") {
  std::vector<std::int8_t> q(2);
  for (const float w : {1e-38f, 0.3f, 1.0f, 7.7f, 3e38f}) {
    const std::array weights{-w, w / 3};
    const float scale = quantize_channel<float>(2, weights.data(), q.data());
    CHECK(q[0] >= -127);
    CHECK(std::abs(static_cast<float>(q[0]) * scale + w) <= scale / 2);
  }
  const std::array zeros{0.0f, -0.0f};
  CHECK(quantize_channel<float>(2, zeros.data(), q.data()) == 1);
  CHECK(q == std::vector<std::int8_t>{0, 0});
  const float inf = std::numeric_limits<float>::infinity();
  for (const auto& bad :
       {std::array{1.0f, inf}, {-inf, 1.0f}, {std::nanf(""), 1.0f}, {1.0f, std::nanf("")}})
    CHECK(std::isnan(quantize_channel<float>(2, bad.data(), q.data())));
}

TEST_CASE("fit_symmetric: no weight is clipped, so no gradient is masked") {
  for (int i = 1; i < 2000; ++i) {
    const float largest = static_cast<float>(i) * 0.0137f;
    const auto k = fit_symmetric(largest);
    CHECK(k.in_range(largest));
    CHECK(k.in_range(-largest));
    CHECK(k.quantize(largest) == 127);
  }
}

TEST_CASE("fit_affine: scale, zero point and numbers behind it are torch.ao's") {
  for (const auto& g : support::quantization_goldens::activations) {
    INFO(g.name);
    const auto x = support::quantization_goldens::tensor(g.name);
    const auto q = fit_affine(std::ranges::min(x), std::ranges::max(x), unsigned_bytes);
    CHECK(q.zero_point == g.zero_point);
    // torch.ao divides in float: two roundings, and one of the product.
    CHECK(std::abs(q.scale - g.scale) <= 0x1p-23F * g.scale);
    for (std::size_t i = 0; i < g.points.size(); ++i)
      CHECK(std::abs(q.fake_quantize(support::quantization_goldens::points[i]) - g.points[i]) <=
            0x1p-22F * std::abs(g.points[i]));
  }
}

TEST_CASE("quantize_channel: scales and weights behind them are torch.ao's") {
  for (const auto& g : support::quantization_goldens::filters) {
    std::array<std::int8_t, 4> q{};
    const float scale = quantize_channel(q.size(), g.weights.data(), q.data());
    const bool zeros = std::ranges::all_of(g.weights, [](float w) { return w == 0; });
    CHECK(std::abs(scale - (zeros ? 1 : g.scale)) <= 0x1p-23F * scale);  // torch.ao's: 2^-23
    for (std::size_t i = 0; i < q.size(); ++i)
      CHECK(std::abs(scale * static_cast<float>(q[i]) - g.fake_quantized[i]) <=
            0x1p-22F * std::abs(g.fake_quantized[i]));
  }
}

TEST_CASE("quantize_channel: 4 and 2 bits, and ties to even") {
  const auto quantized = [](std::array<double, 4> w, int bits) {
    std::array<std::int8_t, 4> q{};
    const double scale = quantize_channel(w.size(), w.data(), q.data(), bits);
    CHECK(scale == doctest::Approx(1.27 / ((1 << (bits - 1)) - 1)).epsilon(1e-15));
    return std::vector<int>(q.begin(), q.end());
  };
  CHECK(quantized({0.5, -1.27, 0.3, 0}, 8) == std::vector{50, -127, 30, 0});
  CHECK(quantized({0.5, -1.27, 0.3, 0.635}, 4) == std::vector{3, -7, 2, 4});  // 3.5: 4
  CHECK(quantized({0.7, -1.27, 0.3, 0.635}, 2) == std::vector{1, -1, 0, 0});  // 0.5: 0
  std::array<std::int8_t, 2> q{1, 1};
  CHECK(quantize_channel(2, std::array{0.0F, 0.0F}.data(), q.data(), 2) == 1);
  CHECK(q == std::array<std::int8_t, 2>{0, 0});
}
