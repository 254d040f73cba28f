// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/core/concat.hpp>

using namespace cordee;
using namespace cordee::detail::core;

// A pointer would be a bool: "yes" whatever its address.
static_assert(!std::is_constructible_v<part, const void*>);
static_assert(!std::is_constructible_v<part, int*>);
static_assert(std::is_constructible_v<part, const char*>);

TEST_CASE("concat: strings, characters, booleans and integers one after another") {
  CHECK(concat() == "");
  CHECK(concat("rank ", 3, " of ", std::string("8"), ',', ' ', true, '/', false) ==
        "rank 3 of 8, yes/no");
  CHECK(concat(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  CHECK(concat(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615");
}

TEST_CASE("concat: floating-point numbers with six significant digits, infinity as inf") {
  CHECK(concat(0.1, ' ', 1.0f / 3, ' ', 1e10, ' ', -2.0) == "0.1 0.333333 1e+10 -2");
  CHECK(concat(-std::numeric_limits<double>::max()).size() < 32);
  CHECK(concat(std::numeric_limits<double>::infinity()) == "inf");
}

TEST_CASE("grouped: a comma before every third digit from the right and nowhere else") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(123456) == "123,456");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(grouped(-999) == "-999");
  CHECK(grouped(-1000) == "-1,000");
  CHECK(grouped(std::numeric_limits<std::uint64_t>::max()) == "18,446,744,073,709,551,615");
}
