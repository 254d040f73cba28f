// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/requantise.hpp>

using namespace cordee;

namespace {

constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min(),
                       highest = std::numeric_limits<std::int32_t>::max();

using sums = std::vector<std::int32_t>;
sums twice(double m, sums all) {
  for (auto& one : all) one = requantise_twice(one, fixed_point::of(m));
  return all;
}
sums once(double m, sums all) {
  for (auto& one : all) one = requantise_once(one, fixed_point::of(m));
  return all;
}

}  // namespace

TEST_CASE("requantise: the worked multipliers") {
  CHECK(fixed_point::of(0.0025) == fixed_point{1374389535, -8});
  CHECK(fixed_point::of(0.5) == fixed_point{1073741824, 0});
  CHECK(fixed_point::of(0.25) == fixed_point{1073741824, -1});
  CHECK(fixed_point::of(1.5) == fixed_point{1610612736, 1});
  CHECK(fixed_point::of(0.9999999999) == fixed_point{1073741824, 1});
  CHECK(fixed_point::of(0) == fixed_point{0, 0});
  CHECK(fixed_point::of(std::ldexp(0.5, -31)) == fixed_point{1073741824, -31});
  CHECK(fixed_point::of(std::ldexp(0.5, -32)) == fixed_point{0, 0});
}

TEST_CASE("requantise: the worked sums, rounded twice and once") {
  CHECK(twice(0.25, {-2, -1, 1, 2, 3, 345}) == sums{-1, 0, 1, 1, 1, 87});
  CHECK(once(0.25, {-2, -1, 1, 2, 3, 345}) == sums{0, 0, 0, 1, 1, 86});
  for (const auto& by : {twice, once}) {
    CHECK(by(0.5, {-345, -3, -1, 1, 3, 345}) == sums{-172, -1, 0, 1, 2, 173});
    CHECK(by(1.5, {-345, -3, -1, 1, 3, 345}) == sums{-517, -4, -1, 2, 5, 518});
    CHECK(by(0, {-345, 0, 345}) == sums{0, 0, 0});
  }
}

TEST_CASE("requantise: shifts round ties away from zero, products round them up") {
  CHECK(rounded_shift(5, 1) == 3);
  CHECK(rounded_shift(-5, 1) == -3);
  CHECK(rounded_shift(6, 2) == 2);
  CHECK(rounded_shift(-6, 2) == -2);
  CHECK(rounded_shift(-2, 2) == -1);
  CHECK(rounded_shift(2, 2) == 1);
  CHECK(rounded_shift(-3, 1) == -2);
  CHECK(rounded_shift(highest, 31) == 1);
  CHECK(rounded_shift(lowest, 31) == -1);
  CHECK(rounded_shift(77, 0) == 77);
  CHECK(high_product(-345, 1 << 30) == -172);
  CHECK(high_product(345, 1 << 30) == 173);
  CHECK(high_product(lowest, lowest) == highest);
  CHECK(high_product(lowest, highest) == -highest);
}

TEST_CASE("requantise: what a left shift carries out of 32 bits saturates") {
  const fixed_point four = fixed_point::of(4);
  CHECK(requantise_twice(1000, four) == 4000);
  CHECK(requantise_once(1000, four) == 4000);
  CHECK(requantise_once(highest, four) == highest);
  CHECK(requantise_once(lowest, four) == lowest);
  // 4 is 0.5 2^3: the shift saturates, and half of that remains.
  CHECK(requantise_twice(highest, four) == 1 << 30);
  CHECK(requantise_twice(lowest, four) == -(1 << 30));
}

TEST_CASE("requantise: either rounding is within one of the real product") {
  random_sequence draw(1, purpose::test, 0, 0);
  for (int i = 0; i < 20000; ++i) {
    const auto acc = static_cast<std::int32_t>(draw.bits()) >> draw.below(20);
    const double m = std::ldexp(0.5 + draw.uniform() / 2, -static_cast<int>(draw.below(14)));
    const double real = acc * m;
    const auto by = fixed_point::of(m);
    // The multiplier's own rounding is 2^-31 of the product.
    const double allowed = std::abs(real) * 0x1p-31 + 1e-9;
    CHECK(std::abs(requantise_once(acc, by) - real) <= 0.5 + allowed);
    CHECK(std::abs(requantise_twice(acc, by) - real) <= 1 + allowed);
  }
}

TEST_CASE("requantise: the worked dot product of a quantised convolution") {
  const double sx = .02, sw = .005, sy = .04;
  const int zx = -5, zy = 3;
  const std::array qx{10, -20, 127, -128}, qw{3, -7, 100, -127};
  const auto bias = static_cast<std::int32_t>(std::nearbyint(.25 / (sx * sw)));
  CHECK(bias == 2500);
  std::int32_t acc = bias;
  for (std::size_t i = 0; i < qx.size(); ++i) acc += (qx[i] - zx) * qw[i];
  CHECK(acc == 31471);
  const auto m = fixed_point::of(sx * sw / sy);
  CHECK(m == fixed_point::of(0.0025));
  CHECK(std::clamp(requantise_twice(acc, m) + zy, -128, 127) == 82);
  CHECK(std::clamp(requantise_once(acc, m) + zy, -128, 127) == 82);
}
