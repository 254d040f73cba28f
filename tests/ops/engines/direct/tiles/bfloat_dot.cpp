// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/engines/direct/tiles/bfloat_dot.hpp>

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;

namespace {

// An inexact sum is off by up to half of the last place; Arm's, rounded to odd, by up to one.
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
constexpr double places = 2;
#else
constexpr double places = 1;
#endif

bfloat_pair pair_of(float first, float second) {
  return bfloat_pair{bfloat::nearest(second).bits} << 16 | bfloat::nearest(first).bits;
}

}  // namespace

TEST_CASE("bfloat_dot: a dot product of two is what the instruction defines, or what replaces it") {
  constexpr int V = lanes<float>;
  random_sequence random(1, purpose::test, 0, 0);
  const auto number = [&] { return bfloat::nearest(static_cast<float>(4 * random.uniform() - 2)); };
  for (int trial = 0; trial < 1000; ++trial) {
    const bfloat even = number(), odd = number();
    const bfloat_pair pixel = bfloat_pair{odd.bits} << 16 | even.bits;
    vec<float, V> sum{};
    detail::ops::bfloat_pairs<V> weights{};
    double exact[V], magnitude[V];
    for (int v = 0; v < V; ++v) {
      const bfloat a = number(), b = number();
      sum[v] = static_cast<float>(2 * random.uniform() - 1);
      weights[v] = bfloat_pair{b.bits} << 16 | a.bits;
      const double first = double{even.exact()} * double{a.exact()},
                   second = double{odd.exact()} * double{b.exact()};
      exact[v] = double{sum[v]} + first + second;
      magnitude[v] = std::abs(double{sum[v]}) + std::abs(first) + std::abs(second);
    }
    const auto result =
        detail::ops::bfloat_dot<V, detail::ops::bfloat_dots>::add(sum, pixel, weights);
    // Products of two numbers of eight bits are exact in fp32; two sums are rounded.
    for (int v = 0; v < V; ++v)
      CHECK(std::abs(double{result[v]} - exact[v]) <=
            places * double{std::numeric_limits<float>::epsilon()} * magnitude[v]);
  }
}

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
namespace {

/// a + b as Arm defines it for bf16: an inexact sum is truncated, and its last bit is set.
float add_to_odd(float a, float b) {
  const double sum = double{a} + double{b};  // exact: the numbers below lie within 2^24
  const auto nearest = static_cast<float>(sum);
  if (nearest == sum) return nearest;
  const float truncated =
      std::abs(nearest) > std::abs(sum) ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(truncated) | 1u);
}

}  // namespace

TEST_CASE("bfloat_dot: on Arm the products are added first, and sums are rounded to odd") {
  constexpr int V = lanes<float>;
  random_sequence random(3, purpose::test, 0, 0);
  const auto number = [&] {
    const double x = std::ldexp(1 + random.uniform(), static_cast<int>(random.below(12)) - 6);
    return bfloat::nearest(static_cast<float>(random.coin() ? x : -x)).exact();
  };
  std::size_t to_odd = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const float even = number(), odd = number();
    vec<float, V> sum{};
    detail::ops::bfloat_pairs<V> weights{};
    float wanted[V];
    for (int v = 0; v < V; ++v) {
      const float a = number(), b = number();
      sum[v] = static_cast<float>(2 * random.uniform() - 1);
      weights[v] = pair_of(a, b);
      wanted[v] = add_to_odd(sum[v], add_to_odd(even * a, odd * b));
      to_odd += wanted[v] != sum[v] + (even * a + odd * b);
    }
    const auto result = detail::ops::bfloat_dot<V, true>::add(sum, pair_of(even, odd), weights);
    for (int v = 0; v < V; ++v) CHECK(float{result[v]} == wanted[v]);
  }
  CHECK(to_odd > 100);
  const auto tiny = detail::ops::bfloat_dot<V, true>::add(
      vec<float, V>{}, pair_of(0x1p-70f, 0), detail::ops::bfloat_pairs<V>{} + pair_of(0x1p-70f, 0));
  for (int v = 0; v < V; ++v) CHECK(float{tiny[v]} == 0);
}
#endif

TEST_CASE("bfloat_dot: sums are rounded as bfloat::nearest does, subnormal ones to zero or so") {
  constexpr int V = lanes<float>;
  random_sequence random(2, purpose::test, 0, 0);
  for (int trial = 0; trial < 1000; ++trial) {
    vec<float, V> sum{};
    for (int v = 0; v < V; ++v)
      sum[v] = std::ldexp(static_cast<float>(2 * random.uniform() - 1),
                          static_cast<int>(random.below(80)) - 40);
    sum[0] = std::bit_cast<float>(0x3f808000u);  // ties, to even
    sum[1] = std::bit_cast<float>(0x3f818000u);
    sum[2] = std::numeric_limits<float>::infinity();
    sum[3] = -0.0f;
    bfloat rounded[std::size_t{V}];
    store_bfloat_sums<V, true>(rounded, sum);
    for (int v = 0; v < V; ++v) CHECK(rounded[v].bits == bfloat::nearest(sum[v]).bits);
  }
  vec<float, V> special{};
  special[0] = std::numeric_limits<float>::quiet_NaN();
  special[1] = 0x1p-130f;
  bfloat stored[std::size_t{V}];
  store_bfloat_sums<V, true>(stored, special);
  CHECK(std::isnan(stored[0].exact()));
  CHECK(stored[1].exact() <= 0x1p-130f);
  CHECK(stored[1].exact() >= 0);
}

TEST_CASE("bfloat_dot: a product of numbers is one, of pairs two") {
  constexpr int V = lanes<float>;
  vec<float, V> sum = vec<float, V>{} + 1, w = vec<float, V>{} + 3;
  add_product<float, V>(sum, 2, w);
  for (int v = 0; v < V; ++v) CHECK(float{sum[v]} == 7);
  add_product<bfloat_pair, V>(sum, pair_of(2, -1), bfloat_pairs<V>{} + pair_of(5, 4));
  for (int v = 0; v < V; ++v) CHECK(float{sum[v]} == 13);
}
