// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/infer/cpu/rescale_lanes.hpp>

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::fixed_point;

namespace {

template <int V>
void check_lanes() {
  random_sequence draw(V, purpose::test, 0, 0);
  for (int round = 0; round < 2000; ++round) {
    std::vector<fixed_point> factors;
    std::vector<std::int32_t> x(std::size_t{V}), y(x.size());
    for (std::size_t v = 0; v < V; ++v) {
      const int exponent = static_cast<int>(draw.below(36)) - 30;  // 2^-31 .. 2^6
      factors.push_back(fixed_point::from_real(std::ldexp(0.5 + draw.uniform() / 2, exponent)));
      if (v == 1) factors.back() = {};
      x[v] = static_cast<std::int32_t>(draw.bits()) >> (8 + draw.below(20));
      if (v == 0) {  // a tie
        factors.back() = fixed_point::from_real(0.25);
        x[v] = x[v] * 4 + 2;
      }
    }
    detail::ops::store<std::int32_t, V>(
        y.data(), rescaling<V>(factors)(detail::ops::load<std::int32_t, V>(x.data())));
    for (std::size_t v = 0; v < V; ++v)
      CHECK(y[v] == detail::ops::rescaled(std::int64_t{x[v]}, factors[v]));
  }
}

}  // namespace

TEST_CASE("rescaling: each lane is the rescaled number of that lane, ties up") {
  check_lanes<4>();
  check_lanes<8>();
  if constexpr (detail::ops::lanes<float> >= 16) check_lanes<detail::ops::lanes<float>>();
}

TEST_CASE("wide_rescaling: equals the rescaled number for factors of any size, powers of two too") {
  constexpr int V = detail::ops::lanes<float>;
  random_sequence draw(1, purpose::test, 0, 0);
  const auto check = [&](fixed_point f, int offset) {
    const wide_rescaling<V> rescale(f, offset);
    std::vector<std::int32_t> x(4096), y(x.size());
    for (std::int32_t& v : x) v = static_cast<std::int32_t>(draw.bits()) >> (8 + draw.below(20));
    x[0] = 1 << 23;
    x[1] = -(1 << 23);
    for (std::size_t i = 0; i < x.size(); i += V)
      detail::ops::store<std::int32_t, V>(
          y.data() + i, rescale(detail::ops::load<std::int32_t, V>(x.data() + i)));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      wrong += y[i] != detail::ops::rescaled(std::int64_t{x[i]}, f) + offset ? 1U : 0U;
    CHECK(wrong == 0);
  };
  for (int shift = -31; shift <= 6; ++shift) {  // 2^-32 .. 2^6
    for (const int offset : {0, 255}) {
      check({1 << 30, shift}, offset);
      check({2147483647, shift}, offset);
      check(fixed_point::from_real(std::ldexp(0.5 + draw.uniform() / 2, shift)), offset);
    }
  }
  check({}, 0);
}
