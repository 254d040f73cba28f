// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/precision/int8.hpp>

using namespace cordee;

static_assert(std::is_same_v<int8::storage, std::int8_t> && !int8::scales_loss);
static_assert(sizeof(int8::scaling) == 8);

TEST_CASE_TEMPLATE("round_clamped: equals std::nearbyint within bounds", Real, float, double) {
  for (int k = -1200; k <= 1200; ++k) {
    const Real x = static_cast<Real>(k) / 8;
    CHECK(detail::precision::round_clamped(x, -1000, 1000) == static_cast<int>(std::nearbyint(x)));
    for (const Real near : {std::nextafter(x, Real{-1000}), std::nextafter(x, Real{1000})})
      CHECK(detail::precision::round_clamped(near, -1000, 1000) ==
            static_cast<int>(std::nearbyint(near)));
    const double bounded = std::fmin(std::fmax(std::nearbyint(x), -3), 70);
    CHECK(detail::precision::round_clamped(x, -3, 70) == static_cast<int>(bounded));
  }
  using limits = std::numeric_limits<Real>;
  CHECK(detail::precision::round_clamped(limits::infinity(), -128, 127) == 127);
  CHECK(detail::precision::round_clamped(-limits::infinity(), -128, 127) == -128);
  CHECK(detail::precision::round_clamped(limits::max(), -128, 127) == 127);
  CHECK(detail::precision::round_clamped(limits::quiet_NaN(), -128, 127) == -128);
  static_assert(detail::precision::round_clamped(Real{2.5}, -128, 127) == 2 &&
                detail::precision::round_clamped(Real{3.5}, -128, 127) == 4);
}

TEST_CASE("int8: integers survive decoding and encoding at any scale") {
  for (const float most : {1e-30f, 0.01f, 1.0f, 127.0f, 12345.0f, 3e38f}) {
    const auto k = int8::fit(most);
    CHECK(k.zero == 0);
    for (int q = -127; q <= 127; ++q) {
      const auto stored = static_cast<std::int8_t>(q);
      CHECK(int8::encode(int8::decode(stored, k), k) == stored);
    }
  }
}

TEST_CASE("int8: the error is at most half a step, and -128 is not used") {
  const float most = 0.7f;
  const auto k = int8::fit(most);
  CHECK(int8::encode(most, k) == 127);
  CHECK(int8::encode(-most, k) == -127);
  CHECK(int8::encode(-2 * most, k) == -127);
  for (int i = -1000; i <= 1000; ++i) {
    const float x = most * static_cast<float>(i) / 1000;
    CHECK(std::abs(int8::decode(int8::encode(x, k), k) - x) <= k.scale * 0.50001f);
  }
  CHECK(int8::encode(0, k) == 0);
  CHECK(int8::encode(0, int8::fit(0)) == 0);
  CHECK(int8::decode(0, int8::fit(0)) == 0);
}

TEST_CASE("int8: with a zero point, a range that is not symmetric") {
  const int8::scaling k{0.5f, -100};
  CHECK(int8::encode(0, k) == -100);
  CHECK(int8::encode(100, k) == 100);
  CHECK(int8::encode(-13, k) == -126);
  CHECK(int8::encode(-50, k) == -127);
  CHECK(int8::decode(-101, k) == -0.5f);
}

TEST_CASE("int8: with a range that is not finite every number decodes to NaN") {
  using limits = std::numeric_limits<float>;
  for (const float x : {limits::infinity(), -limits::infinity(), limits::quiet_NaN()}) {
    const auto k = int8::fit(x);
    for (const float y : {x, 0.0f, 1.0f}) CHECK(std::isnan(int8::decode(int8::encode(y, k), k)));
  }
  // The smallest numbers have a scale that can be inverted.
  const auto k = int8::fit(limits::denorm_min());
  CHECK(std::isfinite(1 / k.scale));
  CHECK(int8::decode(int8::encode(limits::denorm_min(), k), k) == 0);
}

TEST_CASE("low_bit_weights: the name has the bits, by which checkpoints tell precisions apart") {
  CHECK(low_bit_weights<2>::name == "int8, weights of 2 bits");
  CHECK(low_bit_weights<3>::name == "int8, weights of 3 bits");
  CHECK(low_bit_weights<4>::name == "int8, weights of 4 bits");
  CHECK(low_bit_weights<5>::name == "int8, weights of 5 bits");
  CHECK(low_bit_weights<6>::name == "int8, weights of 6 bits");
  CHECK(low_bit_weights<7>::name == "int8, weights of 7 bits");
  CHECK(low_bit_weights<8>::name == "int8, weights of 8 bits");
}
