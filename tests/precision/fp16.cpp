// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/precision/fp16.hpp>

using namespace cordee;

static_assert(sizeof(half) == 2 && std::is_trivially_copyable_v<half>);

namespace {

half from_bits(unsigned bits) { return {static_cast<std::uint16_t>(bits)}; }

// The definition, in double precision: sign, exponent and fraction of sixteen bits.
double value(unsigned bits) {
  const double sign = bits & 0x8000u ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 10 & 31u), fraction = static_cast<int>(bits & 1023);
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

// The nearest half by search, ties to even. Requires that x is not NaN.
unsigned nearest_by_search(double x) {
  const unsigned sign = std::signbit(x) ? 0x8000u : 0;
  const double a = std::abs(x);
  if (a >= 65520) return sign | 0x7c00u;
  unsigned low = 0, high = 0x7bffu;  // values rise with bits
  while (low < high) {
    const unsigned middle = (low + high + 1) / 2;
    if (value(middle) <= a)
      low = middle;
    else
      high = middle - 1;
  }
  if (low == 0x7bffu) return sign | low;
  const double down = a - value(low), up = value(low + 1) - a;
  const bool next = up < down || (up == down && low % 2 == 1);
  return sign | (next ? low + 1 : low);
}

}  // namespace

TEST_CASE("half: all 65,536 bit patterns decode to their IEEE 754 value and encode to themselves") {
  for (unsigned b = 0; b < 65536; ++b) {
    const float x = from_bits(b).exact();
    if (std::isnan(value(b))) {
      CHECK(std::isnan(x));
      CHECK(std::isnan(half::nearest(x).exact()));
      CHECK(std::signbit(x) == ((b & 0x8000u) != 0));
      continue;
    }
    REQUIRE(static_cast<double>(x) == value(b));
    REQUIRE(std::signbit(x) == ((b & 0x8000u) != 0));
    REQUIRE(half::nearest(x).bits == b);
  }
}

TEST_CASE("half: limits of the format") {
  CHECK(half::nearest(65504).bits == 0x7bff);
  CHECK(half::nearest(std::nextafter(65520.0f, 0.0f)).bits == 0x7bff);
  CHECK(half::nearest(65520).bits == 0x7c00);
  CHECK(half::nearest(-1e30f).bits == 0xfc00);
  CHECK(from_bits(0x0001).exact() == std::ldexp(1.0f, -24));
  CHECK(from_bits(0x0400).exact() == std::ldexp(1.0f, -14));
  CHECK(half::nearest(std::ldexp(1.0f, -25)).bits == 0);  // a tie, to even
  CHECK(half::nearest(std::nextafter(std::ldexp(1.0f, -25), 1.0f)).bits == 1);
  CHECK(half::nearest(std::numeric_limits<float>::denorm_min()).bits == 0);
  CHECK(half::nearest(-0.0f).bits == 0x8000);
  CHECK(half::nearest(std::bit_cast<float>(0x7f800001u)).bits == 0x7e00);  // a low payload
  static_assert(half::nearest(1).bits == 0x3c00 && half{0x3c00}.exact() == 1);
}

TEST_CASE("half: ties round to even, floats next to a tie to the nearer half") {
  for (unsigned b = 0; b < 0x7c00; ++b) {
    const double current = value(b), next = b == 0x7bff ? 65536 : value(b + 1);
    const auto middle = static_cast<float>((current + next) / 2);
    REQUIRE(static_cast<double>(middle) == (current + next) / 2);
    for (const float sign : {1.0f, -1.0f}) {
      const unsigned s = sign < 0 ? 0x8000u : 0;
      REQUIRE(half::nearest(sign * middle).bits == (s | (b % 2 == 0 ? b : b + 1)));
      REQUIRE(half::nearest(sign * std::nextafter(middle, 0.0f)).bits == (s | b));
      REQUIRE(half::nearest(sign * std::nextafter(middle, 1e9f)).bits == (s | (b + 1)));
    }
  }
}

TEST_CASE("half: equals a search for the nearest, on a grid of all exponents and at random") {
  const auto check = [](std::uint32_t bits) {
    const auto x = std::bit_cast<float>(bits);
    if (std::isnan(x)) {
      REQUIRE(std::isnan(half::nearest(x).exact()));
      return;
    }
    REQUIRE(half::nearest(x).bits == nearest_by_search(static_cast<double>(x)));
#if defined(__aarch64__)  // where g++ 12 has no _Float16
    REQUIRE(half::nearest(x).bits == std::bit_cast<std::uint16_t>(static_cast<__fp16>(x)));
#elif defined(__FLT16_MAX__)
    REQUIRE(half::nearest(x).bits == std::bit_cast<std::uint16_t>(static_cast<_Float16>(x)));
#endif
  };
  for (std::uint32_t bits = 0; bits < 0xfffff000u; bits += 0x3fffu) check(bits);
  random_sequence random(3, purpose::test, 0, 0);
  for (int i = 0; i < 100'000; ++i) check(static_cast<std::uint32_t>(random.bits()));
}

TEST_CASE("fp16: scaled by the largest, no number overflows and each keeps eleven bits") {
  for (const float most : {1e-37f, 1e-20f, 3e-8f, 1.0f, 1.9999999f, 65504.0f, 1e20f, 3e38f}) {
    const fp16::scaling k = fp16::fit(most);
    CHECK(fp16::fit(-most).scale == k.scale);
    const double scaled = static_cast<double>(most) * static_cast<double>(k.scale);
    CHECK(scaled < 32768);
    if (most > 1e-30f) CHECK(scaled >= 16384);
    for (const float share : {1.0f, -0.7f, 0.01f, -1e-4f, 1e-7f}) {
      const float x = most * share;
      if (std::abs(x) < std::numeric_limits<float>::min()) continue;
      const float back = fp16::decode(fp16::encode(x, k), k);
      CHECK(std::abs(back - x) <= std::ldexp(std::abs(x), -11));
    }
  }
  CHECK(fp16::decode(fp16::encode(0, fp16::fit(0)), fp16::fit(0)) == 0);
  CHECK(fp16::fit(std::numeric_limits<float>::denorm_min()).scale == std::ldexp(1.0f, 126));
}

TEST_CASE("fp16: a range or a number that is not finite decodes to a number that is not finite") {
  for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
    for (const float x : {bad, 0.0f, 1.0f})
      CHECK_FALSE(std::isfinite(fp16::decode(fp16::encode(x, fp16::fit(bad)), fp16::fit(bad))));
    CHECK_FALSE(std::isfinite(fp16::decode(fp16::encode(bad, fp16::fit(1)), fp16::fit(1))));
  }
}
