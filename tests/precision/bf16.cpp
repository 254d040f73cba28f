// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/precision/bf16.hpp>

using namespace cordee;

TEST_CASE("bf16: all 65,536 bit patterns survive conversion to float and back") {
  for (std::uint32_t b = 0; b < 0x10000u; ++b) {
    const bfloat q{static_cast<std::uint16_t>(b)};
    const float x = q.exact();
    const bfloat back = bfloat::nearest(x);
    if (std::isnan(x))
      CHECK(std::isnan(back.exact()));
    else
      CHECK(back.bits == q.bits);
  }
}

TEST_CASE("bf16: a float rounds to the nearer neighbor, a tie to the even one") {
  for (std::uint32_t b = 0; b < 0x7f7fu; b += 7) {
    const float low = bfloat{static_cast<std::uint16_t>(b)}.exact();
    const float high = bfloat{static_cast<std::uint16_t>(b + 1)}.exact();
    const float middle = low + (high - low) / 2;
    for (const float sign : {1.0f, -1.0f}) {
      const auto round_trip = [&](float x) { return bfloat::nearest(sign * x).exact() * sign; };
      CHECK(round_trip(std::nextafter(middle, 0.0f)) == low);
      CHECK(round_trip(std::nextafter(middle, std::numeric_limits<float>::max())) == high);
      CHECK(round_trip(middle) == (b % 2 == 0 ? low : high));
    }
  }
}

TEST_CASE("bf16: infinity, overflow, the smallest subnormal, NaN") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(bfloat::nearest(infinity).exact() == infinity);
  CHECK(bfloat::nearest(-infinity).exact() == -infinity);
  CHECK(bfloat::nearest(std::numeric_limits<float>::max()).exact() == infinity);
  CHECK(bfloat::nearest(0x1p-133f).exact() == 0x1p-133f);  // the smallest
  CHECK(std::isnan(bfloat::nearest(std::bit_cast<float>(0x7f800001u)).exact()));
  CHECK(std::isnan(bfloat::nearest(std::bit_cast<float>(0xffffffffu)).exact()));
  CHECK(!bf16::scales_loss);
}
