// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/requantize.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min(),
                       highest = std::numeric_limits<std::int32_t>::max();

using sums = std::vector<std::int32_t>;
sums double_rounding(double m, sums acc) {
  for (auto& a : acc) a = requantize_double_rounding(a, fixed_point::from_real(m));
  return acc;
}
sums single_rounding(double m, sums acc) {
  for (auto& a : acc) a = requantize_single_rounding(a, fixed_point::from_real(m));
  return acc;
}

}  // namespace

TEST_CASE("requantize: multipliers and shifts of worked examples") {
  CHECK(fixed_point::from_real(0.0025) == fixed_point{1374389535, -8});
  CHECK(fixed_point::from_real(0.5) == fixed_point{1073741824, 0});
  CHECK(fixed_point::from_real(0.25) == fixed_point{1073741824, -1});
  CHECK(fixed_point::from_real(1.5) == fixed_point{1610612736, 1});
  CHECK(fixed_point::from_real(0.9999999999) == fixed_point{1073741824, 1});
  CHECK(fixed_point::from_real(0) == fixed_point{0, 0});
  CHECK(fixed_point::from_real(std::ldexp(0.5, -31)) == fixed_point{1073741824, -31});
  CHECK(fixed_point::from_real(std::ldexp(0.5, -32)) == fixed_point{0, 0});
}

TEST_CASE("requantize: worked examples of double and single rounding") {
  CHECK(double_rounding(0.25, {-2, -1, 1, 2, 3, 345}) == sums{-1, 0, 1, 1, 1, 87});
  CHECK(single_rounding(0.25, {-2, -1, 1, 2, 3, 345}) == sums{0, 0, 0, 1, 1, 86});
  for (const auto& requantize : {double_rounding, single_rounding}) {
    CHECK(requantize(0.5, {-345, -3, -1, 1, 3, 345}) == sums{-172, -1, 0, 1, 2, 173});
    CHECK(requantize(1.5, {-345, -3, -1, 1, 3, 345}) == sums{-517, -4, -1, 2, 5, 518});
    CHECK(requantize(0, {-345, 0, 345}) == sums{0, 0, 0});
  }
}

TEST_CASE(
    "requantize: division by a power of two rounds ties away from zero, the product rounds them "
    "up") {
  CHECK(rounding_divide_by_power_of_two(5, 1) == 3);
  CHECK(rounding_divide_by_power_of_two(-5, 1) == -3);
  CHECK(rounding_divide_by_power_of_two(6, 2) == 2);
  CHECK(rounding_divide_by_power_of_two(-6, 2) == -2);
  CHECK(rounding_divide_by_power_of_two(-2, 2) == -1);
  CHECK(rounding_divide_by_power_of_two(2, 2) == 1);
  CHECK(rounding_divide_by_power_of_two(-3, 1) == -2);
  CHECK(rounding_divide_by_power_of_two(highest, 31) == 1);
  CHECK(rounding_divide_by_power_of_two(lowest, 31) == -1);
  CHECK(rounding_divide_by_power_of_two(77, 0) == 77);
  CHECK(rounding_doubling_high_mul(-345, 1 << 30) == -172);
  CHECK(rounding_doubling_high_mul(345, 1 << 30) == 173);
  CHECK(rounding_doubling_high_mul(lowest, lowest) == highest);
  CHECK(rounding_doubling_high_mul(lowest, highest) == -highest);
}

TEST_CASE("requantize: a left shift saturates") {
  const fixed_point four = fixed_point::from_real(4);
  CHECK(requantize_double_rounding(1000, four) == 4000);
  CHECK(requantize_single_rounding(1000, four) == 4000);
  CHECK(requantize_single_rounding(highest, four) == highest);
  CHECK(requantize_single_rounding(lowest, four) == lowest);
  // 4 is 0.5 2^3: the shift saturates, then the result is halved.
  CHECK(requantize_double_rounding(highest, four) == 1 << 30);
  CHECK(requantize_double_rounding(lowest, four) == -(1 << 30));
}

TEST_CASE(
    "requantize: single rounding is within 1/2 of the real product, double rounding within 1") {
  random_sequence draw(1, purpose::test, 0, 0);
  for (int i = 0; i < 20000; ++i) {
    const auto acc = static_cast<std::int32_t>(draw.bits()) >> draw.below(20);
    const double m = std::ldexp(0.5 + draw.uniform() / 2, -static_cast<int>(draw.below(14)));
    const double real = acc * m;
    const auto factor = fixed_point::from_real(m);
    // The rounding of the multiplier is 2^-31 of the product.
    const double allowed = std::abs(real) * 0x1p-31 + 1e-9;
    CHECK(std::abs(requantize_single_rounding(acc, factor) - real) <= 0.5 + allowed);
    CHECK(std::abs(requantize_double_rounding(acc, factor) - real) <= 1 + allowed);
  }
}

TEST_CASE("requantize: the worked dot product of a quantised convolution") {
  const double sx = .02, sw = .005, sy = .04;
  const int zx = -5, zy = 3;
  const std::array qx{10, -20, 127, -128}, qw{3, -7, 100, -127};
  const auto bias = static_cast<std::int32_t>(std::nearbyint(.25 / (sx * sw)));
  CHECK(bias == 2500);
  std::int32_t acc = bias;
  for (std::size_t i = 0; i < qx.size(); ++i) acc += (qx[i] - zx) * qw[i];
  CHECK(acc == 31471);
  const auto m = fixed_point::from_real(sx * sw / sy);
  CHECK(m == fixed_point::from_real(0.0025));
  CHECK(std::clamp(requantize_double_rounding(acc, m) + zy, -128, 127) == 82);
  CHECK(std::clamp(requantize_single_rounding(acc, m) + zy, -128, 127) == 82);
}
