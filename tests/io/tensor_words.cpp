// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <doctest/doctest.h>

#include <cordee/io/tensor_words.hpp>

using namespace cordee;

TEST_CASE("tensor words: a number is as wide as its name says, an unknown one has no width") {
  CHECK(detail::dtype_size("F64") == 8);
  CHECK(detail::dtype_size("I32") == 4);
  CHECK(detail::dtype_size("BF16") == 2);
  CHECK(detail::dtype_size("BOOL") == 1);
  CHECK(detail::dtype_size("F33") == 0);
  CHECK(detail::dtype_size("") == 0);
}

TEST_CASE("tensor words: a shape multiplies up, or says that it overflows") {
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max();
  std::size_t size = 0;
  CHECK(detail::multiply_up(4, std::array<std::size_t, 3>{2, 3, 5}, size));
  CHECK(size == 120);
  CHECK(detail::multiply_up(8, {}, size));
  CHECK(size == 8);
  CHECK(detail::multiply_up(1, std::array{huge}, size));
  CHECK(size == huge);
  CHECK_FALSE(detail::multiply_up(2, std::array{huge / 2 + 1}, size));
}

TEST_CASE("tensor words: a name that occurs twice is found, wherever it stands") {
  CHECK(detail::repeated({"c", "a", "b", "a"}) == "a");
  CHECK_FALSE(detail::repeated({"c", "a", "b"}).has_value());
  CHECK_FALSE(detail::repeated({}).has_value());
}
