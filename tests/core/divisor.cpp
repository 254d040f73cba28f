// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include <cordee/core/divisor.hpp>

using namespace cordee;

TEST_CASE("divisor: the quotient has the bits of a division") {
  std::mt19937_64 random(1);
  std::size_t wrong = 0;
  const auto check = [&](double a, double d) {
    if (std::bit_cast<std::uint64_t>(detail::core::divisor(d).quotient(a)) !=
        std::bit_cast<std::uint64_t>(a / d))
      ++wrong;
  };
  // Mantissas of any bits, and those next to a power of two, where rounding is hardest.
  const auto mantissa = [&] {
    const std::uint64_t bits = random() >> 12, few = random() % 8;
    const std::uint64_t chosen[] = {bits, bits, few, (std::uint64_t{1} << 52) - 1 - few};
    return std::bit_cast<double>(std::uint64_t{1023} << 52 | chosen[random() % 4]);
  };
  for (int k = 0; k < 1'000'000; ++k) {
    const int a = -static_cast<int>(random() % 900), d = static_cast<int>(random() % 40);
    check(std::ldexp(mantissa(), a), std::ldexp(mantissa(), d));
  }
  // Quotients next to the middle m / 2^54 of two numbers: a 2^54 = m d + 1 or m d - 1.
  __extension__ using wide = unsigned __int128;
  for (int k = 0; k < 1'000'000; ++k) {
    const std::uint64_t m = std::uint64_t{1} << 53 | random() >> 11 | 1;
    std::uint64_t inverse = m;  // of the last 3 bits, then of twice as many
    for (int bits = 3; bits < 54; bits *= 2) inverse *= 2 - m * inverse;
    inverse &= (std::uint64_t{1} << 54) - 1;
    const bool above = random() % 2 == 0;
    const std::uint64_t d = above ? (std::uint64_t{1} << 54) - inverse : inverse;
    const auto a = static_cast<std::uint64_t>((wide{m} * d + 1) >> 54);
    if (a < std::uint64_t{1} << 53 && d < std::uint64_t{1} << 53)
      check(static_cast<double>(a), static_cast<double>(d));
  }
  for (int a = 0; a < 1000; ++a)
    for (int d = 1; d < 1000; ++d) check(a, d);
  CHECK(wrong == 0);
}

TEST_CASE("divisor: NaN stays NaN, and the smallest numbers are within a unit of a quotient's") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   unit = std::numeric_limits<double>::denorm_min();
  CHECK(std::isnan(detail::core::divisor(3).quotient(nan)));
  CHECK(std::isnan(detail::core::divisor(nan).quotient(1)));
  for (double a = 1e-280; a > 0; a /= 7)
    CHECK(std::abs(detail::core::divisor(3).quotient(a) - a / 3) <= std::fmax(unit, a * 1e-16));
}
