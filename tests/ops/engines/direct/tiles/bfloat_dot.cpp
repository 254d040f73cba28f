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
            double{std::numeric_limits<float>::epsilon()} * magnitude[v]);
  }
}

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
  const auto pair = [](float a, float b) {
    return bfloat_pair{bfloat::nearest(b).bits} << 16 | bfloat::nearest(a).bits;
  };
  add_product<bfloat_pair, V>(sum, pair(2, -1), bfloat_pairs<V>{} + pair(5, 4));
  for (int v = 0; v < V; ++v) CHECK(float{sum[v]} == 13);
}
