// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/integer_batch_norm.hpp>

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;

namespace {

/// floor(k x + b + 1/2) in rational arithmetic, with k and b in units of 2^-40.
std::int64_t exact_value(std::int64_t k, std::int64_t b, int x) {
  return (k * x + b + (std::int64_t{1} << 39)) >> 40;
}

constexpr std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

constexpr integer_range wide{-2048, 2047};

}  // namespace

TEST_CASE("integer batch norm: worked examples of channels") {
  // The decimal 0.037 x - 1.25 has exact ties; the double nearest to 0.037 has none.
  const auto decimal = [](int x) { return floor_divide(37 * x - 1250 + 500, 1000); };
  CHECK(fit_integer_affine(0.037, decimal, signed_bytes) == integer_affine{19, -394, -384, 9});
  CHECK(fit_integer_affine(0.037, decimal, wide) == integer_affine{38797, -785886, -785766, 20});
  const auto thirds = [](int x) { return floor_divide(2 * (7 * x + 3) + 21, 42); };
  CHECK(fit_integer_affine(1.0 / 3, thirds, signed_bytes) == integer_affine{85, 127, 127, 8});
  CHECK(fit_integer_affine(1.0 / 3, 1.0 / 7, signed_bytes) == integer_affine{85, 127, 127, 8});
  CHECK(fit_integer_affine(0.037, -1.25, signed_bytes) == integer_affine{19, -394, -384, 9});
  CHECK(fit_integer_affine(-0.044, 1.3, unsigned_bytes) == integer_affine{-45, 1834, 1842, 10});
}

TEST_CASE("integer batch norm: two channels share the larger shift") {
  const auto first = *fit_integer_affine(0.037, -1.25, signed_bytes),
             second = *fit_integer_affine(1.0 / 3, 1.0 / 7, signed_bytes);
  const int shift = std::max(first.shift, second.shift);
  CHECK(first.with_shift(shift) == integer_affine{19, -394, -384, 9});
  CHECK(second.with_shift(shift) == integer_affine{170, 254, 255, 9});
}

TEST_CASE("integer batch norm: exact for every input, for the bounds of B, at larger shifts") {
  random_sequence draw(7, purpose::test, 0, 0);
  for (int trial = 0; trial < 60; ++trial) {
    // Multiples of 2^-40: the function is computed in integers, and doubles hold k and b.
    const std::int64_t k = static_cast<std::int64_t>(draw.bits()) * 512 - (std::int64_t{1} << 40),
                       b = static_cast<std::int64_t>(draw.bits()) * 4096 - (std::int64_t{1} << 43);
    const integer_range in = trial % 3 == 0 ? wide : trial % 3 == 1 ? signed_bytes : unsigned_bytes;
    const auto fitted = fit_integer_affine(std::ldexp(static_cast<double>(k), -40),
                                           std::ldexp(static_cast<double>(b), -40), in);
    REQUIRE(fitted);
    for (const int more : {0, 1, 5})
      for (const bool low : {true, false}) {
        integer_affine f = fitted->with_shift(fitted->shift + more);
        if (!low) f.low = f.high;
        bool same = true;
        for (int x = in.low; x <= in.high; ++x) same = same && f(x) == exact_value(k, b, x);
        CHECK(same);
      }
    // B beyond its bounds is not exact.
    for (const std::int64_t outside : {fitted->low - 1, fitted->high + 1}) {
      integer_affine f = *fitted;
      f.low = outside;
      bool same = true;
      for (int x = in.low; x <= in.high; ++x) same = same && f(x) == exact_value(k, b, x);
      CHECK_FALSE(same);
    }
  }
}

TEST_CASE("integer batch norm: 18 bits are fitted from few values of a steep function") {
  for (const int k : {1, 316, -4000}) {
    int calls = 0;
    const auto function = [&](int x) {
      ++calls;
      return floor_divide(std::int64_t{k} * 1000 * x + 37 * x + 500, 1000);
    };
    REQUIRE(fit_integer_affine(k + 0.037, function, {-131072, 131071}));
    CHECK(calls < 5000);
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
  CHECK(exact_affine(0.5, -0x1p-60, 1) == 0);
  CHECK(exact_affine(0.5, 0, 1) == 1);
  CHECK(exact_affine(1.0 / 3, -0x1p-60, 3) == 1);
  CHECK(exact_affine(1.0 / 3, -0.5, 3) == 0);  // the double is below a third
  CHECK(exact_affine(0.1, -0.5, 10) == 1);
}

TEST_CASE("integer batch norm: no form of what is not finite") {
  CHECK_FALSE(fit_integer_affine(std::nan(""), 0, signed_bytes));
  CHECK_FALSE(fit_integer_affine(1, HUGE_VAL, signed_bytes));
  CHECK_FALSE(fit_integer_affine(1.0 / 3, 1.0 / 7, signed_bytes, 7));  // it needs a shift of 8
}

TEST_CASE("integer batch norm: the number of an interval that ends in the most zeros") {
  const auto zeros = [](std::int64_t b) { return std::countr_zero(static_cast<std::uint64_t>(b)); };
  for (std::int64_t low = -70; low <= 70; ++low)
    for (std::int64_t high = low; high <= 70; ++high) {
      const std::int64_t chosen = with_most_zeros(low, high);
      bool best = low <= chosen && chosen <= high;
      for (std::int64_t b = low; b <= high; ++b) best = best && zeros(b) <= zeros(chosen);
      CHECK_MESSAGE(best, low, " .. ", high, ": ", chosen);
    }
  constexpr std::int64_t large = std::int64_t{1} << 61;
  CHECK(with_most_zeros(large - 1, large + 1) == large);
  CHECK(with_most_zeros(-large - 1, -large + 1) == -large);
  CHECK(with_most_zeros(large + 5, large + 7) == large + 6);
  CHECK(with_most_zeros(1, 2 * large + 3) == 2 * large);
}
