// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/integer_batch_norm.hpp>

using namespace cordee;

namespace {

/// floor(k x + b + 1/2) in rational arithmetic: k and b are whole multiples of 2^-40 here.
std::int64_t exactly(std::int64_t k, std::int64_t b, int x) {
  return (k * x + b + (std::int64_t{1} << 39)) >> 40;
}

constexpr std::int64_t floored(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

constexpr whole_range wide{-2048, 2047};

}  // namespace

TEST_CASE("integer batch norm: the worked channels") {
  // 0.037 x - 1.25 has exact ties, which the double below 0.037 has not: the numbers of the text.
  const auto text = [](int x) { return floored(37 * x - 1250 + 500, 1000); };
  CHECK(fit_integer_affine(0.037, text, signed_bytes) == integer_affine{19, -394, -384, 9});
  CHECK(fit_integer_affine(0.037, text, wide) == integer_affine{38797, -785886, -785766, 20});
  const auto thirds = [](int x) { return floored(2 * (7 * x + 3) + 21, 42); };
  CHECK(fit_integer_affine(1.0 / 3, thirds, signed_bytes) == integer_affine{85, 127, 127, 8});
  CHECK(fit_integer_affine(1.0 / 3, 1.0 / 7, signed_bytes) == integer_affine{85, 127, 127, 8});
  CHECK(fit_integer_affine(0.037, -1.25, signed_bytes) == integer_affine{19, -394, -384, 9});
  CHECK(fit_integer_affine(-0.044, 1.3, unsigned_bytes) == integer_affine{-45, 1834, 1842, 10});
}

TEST_CASE("integer batch norm: two channels share the larger shift") {
  const auto one = *fit_integer_affine(0.037, -1.25, signed_bytes),
             two = *fit_integer_affine(1.0 / 3, 1.0 / 7, signed_bytes);
  const int shift = std::max(one.shift, two.shift);
  CHECK(one.at(shift) == integer_affine{19, -394, -384, 9});
  CHECK(two.at(shift) == integer_affine{170, 254, 255, 9});
}

TEST_CASE("integer batch norm: every input of the range, every B, at every larger shift") {
  random_sequence draw(7, purpose::test, 0, 0);
  for (int trial = 0; trial < 60; ++trial) {
    // Multiples of 2^-40: the wanted function is integer arithmetic, and doubles hold k and b.
    const std::int64_t k = static_cast<std::int64_t>(draw.bits()) * 512 - (std::int64_t{1} << 40),
                       b = static_cast<std::int64_t>(draw.bits()) * 4096 - (std::int64_t{1} << 43);
    const whole_range in = trial % 3 == 0 ? wide : trial % 3 == 1 ? signed_bytes : unsigned_bytes;
    const auto found = fit_integer_affine(std::ldexp(static_cast<double>(k), -40),
                                          std::ldexp(static_cast<double>(b), -40), in);
    REQUIRE(found);
    for (const int more : {0, 1, 5})
      for (const bool low : {true, false}) {
        integer_affine f = found->at(found->shift + more);
        if (!low) f.low = f.high;
        bool same = true;
        for (int x = in.low; x <= in.high; ++x) same = same && f(x) == exactly(k, b, x);
        CHECK(same);
      }
    // The bounds are bounds.
    for (const std::int64_t beyond : {found->low - 1, found->high + 1}) {
      integer_affine f = *found;
      f.low = beyond;
      bool same = true;
      for (int x = in.low; x <= in.high; ++x) same = same && f(x) == exactly(k, b, x);
      CHECK_FALSE(same);
    }
  }
}

TEST_CASE("integer batch norm: halves round up, at exact ties and beside them") {
  const auto half = *fit_integer_affine(0.5, 0, signed_bytes);
  CHECK(half(1) == 1);
  CHECK(half(-1) == 0);
  CHECK(half(-3) == -1);
  const auto below = *fit_integer_affine(0.5, -0x1p-50, {-4, 3});  // 2^-50 below each tie
  CHECK(below(1) == 0);
  CHECK(below(-1) == -1);
  CHECK(detail::exact_affine(0.5, -0x1p-60, 1) == 0);
  CHECK(detail::exact_affine(0.5, 0, 1) == 1);
  CHECK(detail::exact_affine(1.0 / 3, -0x1p-60, 3) == 1);
  CHECK(detail::exact_affine(1.0 / 3, -0.5, 3) == 0);  // the double is below a third
  CHECK(detail::exact_affine(0.1, -0.5, 10) == 1);
}

TEST_CASE("integer batch norm: it says whether 32 bits hold it, and refuses what is not finite") {
  CHECK(fit_integer_affine(0.037, -1.25, signed_bytes)->fits_32_bits(signed_bytes));
  CHECK_FALSE(integer_affine{38797, -785886, -785766, 20}.at(26).fits_32_bits(wide));
  CHECK_FALSE(fit_integer_affine(std::nan(""), 0, signed_bytes));
  CHECK_FALSE(fit_integer_affine(1, HUGE_VAL, signed_bytes));
  CHECK_FALSE(fit_integer_affine(1.0 / 3, 1.0 / 7, signed_bytes, 7));  // it needs a shift of 8
}
