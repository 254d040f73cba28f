// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/io/tensor_format.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

#include "tests/support/bits.hpp"

using namespace cordee;

TEST_CASE("tensor format: sizes of element types, 0 for an unknown one") {
  CHECK(detail::io::dtype_size("F64") == 8);
  CHECK(detail::io::dtype_size("I32") == 4);
  CHECK(detail::io::dtype_size("BF16") == 2);
  CHECK(detail::io::dtype_size("BOOL") == 1);
  CHECK(detail::io::dtype_size("C64") == 8);
  CHECK(detail::io::dtype_bits("F6_E3M2") == 6);
  CHECK(detail::io::dtype_size("F33") == 0);
  CHECK(detail::io::dtype_size("") == 0);
}

TEST_CASE("tensor format: checked_product multiplies or reports overflow") {
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max();
  std::size_t size = 0;
  CHECK(detail::io::checked_product(4, std::array<std::size_t, 3>{2, 3, 5}, size));
  CHECK(size == 120);
  CHECK(detail::io::checked_product(8, {}, size));
  CHECK(size == 8);
  CHECK(detail::io::checked_product(1, std::array{huge}, size));
  CHECK(size == huge);
  CHECK_FALSE(detail::io::checked_product(2, std::array{huge / 2 + 1}, size));
}

TEST_CASE("tensor format: find_duplicate finds a name that occurs twice") {
  CHECK(detail::io::find_duplicate({"c", "a", "b", "a"}) == "a");
  CHECK_FALSE(detail::io::find_duplicate({"c", "a", "b"}).has_value());
  CHECK_FALSE(detail::io::find_duplicate({}).has_value());
}

TEST_CASE("tensor format: all numbers of 16 bits are those of precision/") {
  for (std::uint32_t b = 0; b < 0x10000; ++b) {
    const auto bits = static_cast<std::uint16_t>(b);
    const float f16 = static_cast<float>(detail::io::stored_f16{bits}), half16 = half{bits}.exact();
    const bool same_half = std::isnan(half16)
                               ? std::isnan(f16)
                               : support::same_bits(std::vector{f16}, std::vector{half16});
    const bool same_bfloat =
        support::same_bits(std::vector{static_cast<float>(detail::io::stored_bf16{bits})},
                           std::vector{bfloat{bits}.exact()});
    if (!same_half || !same_bfloat) FAIL("differs at " << b);
  }
}
