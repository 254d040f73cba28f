// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/testing/same_bits.hpp>

using namespace cordee;

TEST_CASE("same_bits: of two numbers, 0 and -0 differ, a NaN equals itself") {
  CHECK(same_bits(1.5, 1.5));
  CHECK_FALSE(same_bits(0.0, -0.0));
  CHECK_FALSE(same_bits(1.0f, std::nextafter(1.0f, 2.0f)));
  CHECK(same_bits(std::nan(""), std::nan("")));
  CHECK_FALSE(same_bits(std::nan("1"), std::nan("2")));
}

TEST_CASE("same_bits: of two ranges, every number and the length count") {
  const std::vector<double> a{1, -0.0, std::nan("")};
  CHECK(same_bits(a, a));
  CHECK_FALSE(same_bits(a, std::vector<double>{1, 0.0, std::nan("")}));
  CHECK_FALSE(same_bits(a, std::vector<double>{1, -0.0}));
  CHECK_FALSE(same_bits(std::vector<double>{}, a));
  CHECK(same_bits(std::vector<double>{}, std::vector<double>{}));
}

TEST_CASE("same_bits: vectors, arrays, spans and spans of the CPU compare with each other") {
  std::vector<float> v{1, 2, 3};
  const std::array<float, 3> same{1, 2, 3}, other{1, 2, 4};
  CHECK(same_bits(v, same));
  CHECK_FALSE(same_bits(v, other));
  CHECK(same_bits(std::span<const float>(same), span_on<float, cpu>{v.data(), v.size()}));
  CHECK_FALSE(same_bits(span_on<const float, cpu>{v.data(), 2}, same));
  CHECK(same_bits(std::vector<std::uint8_t>{7}, std::vector<std::uint8_t>{7}));
}
