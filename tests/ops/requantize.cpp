// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/requantize.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

std::int64_t requantize(std::int32_t acc, fixed_point factor) {
  return rescaled(std::int64_t{acc}, factor);
}
using sums = std::vector<std::int64_t>;
sums requantized(double m, const std::vector<std::int32_t>& acc) {
  sums out;
  for (const std::int32_t a : acc) out.push_back(requantize(a, fixed_point::from_real(m)));
  return out;
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

TEST_CASE("requantize: worked examples, ties up") {
  CHECK(requantized(0.25, {-2, -1, 1, 2, 3, 345}) == sums{0, 0, 0, 1, 1, 86});
  CHECK(requantized(0.5, {-345, -3, -1, 1, 3, 345}) == sums{-172, -1, 0, 1, 2, 173});
  CHECK(requantized(1.5, {-345, -3, -1, 1, 3, 345}) == sums{-517, -4, -1, 2, 5, 518});
  CHECK(requantized(0, {-345, 0, 345}) == sums{0, 0, 0});
  CHECK(requantized(4, {1000}) == sums{4000});
}

TEST_CASE("requantize: it is within 1/2 of the real product") {
  random_sequence draw(1, purpose::test, 0, 0);
  for (int i = 0; i < 20000; ++i) {
    const auto acc = static_cast<std::int32_t>(draw.bits()) >> draw.below(20);
    const double m = std::ldexp(0.5 + draw.uniform() / 2, -static_cast<int>(draw.below(14)));
    const double real = acc * m;
    // The rounding of the multiplier is 2^-31 of the product.
    const double allowed = std::abs(real) * 0x1p-31 + 1e-9,
                 rounded = static_cast<double>(requantize(acc, fixed_point::from_real(m)));
    CHECK(std::abs(rounded - real) <= 0.5 + allowed);
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
  CHECK(requantize(acc, m) + zy == 82);
}
