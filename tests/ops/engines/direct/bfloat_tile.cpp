// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/engines/direct/bfloat_tile.hpp>

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;

TEST_CASE(
    "bfloat_tile: a dot product of two is what the instruction defines, or what replaces it") {
  constexpr int V = lanes<float>;
  random_sequence random(1, purpose::test, 0, 0);
  const auto number = [&] { return bfloat::nearest(static_cast<float>(4 * random.uniform() - 2)); };
  for (int trial = 0; trial < 1000; ++trial) {
    const bfloat even = number(), odd = number();
    const std::uint32_t pixel = std::uint32_t{odd.bits} << 16 | even.bits;
    vec<float, V> sum{};
    detail::ops::bfloat_pairs<V> weights{};
    double exact[V], magnitude[V];
    for (int v = 0; v < V; ++v) {
      const bfloat a = number(), b = number();
      sum[v] = static_cast<float>(2 * random.uniform() - 1);
      weights[v] = std::uint32_t{b.bits} << 16 | a.bits;
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
