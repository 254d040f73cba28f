// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <doctest/doctest.h>

#include <cordee/io/tensor_format.hpp>

using namespace cordee;

TEST_CASE("tensor format: sizes of element types, 0 for an unknown one") {
  CHECK(detail::io::dtype_size("F64") == 8);
  CHECK(detail::io::dtype_size("I32") == 4);
  CHECK(detail::io::dtype_size("BF16") == 2);
  CHECK(detail::io::dtype_size("BOOL") == 1);
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
