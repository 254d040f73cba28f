// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/core/error.hpp>

using namespace cordee;

TEST_CASE("error: holds its message and the source location of the throw expression") {
  const std::uint_least32_t line = __LINE__ + 2;
  try {
    throw error("the file ended early");
  } catch (const error& e) {
    CHECK(std::string(e.what()) == "the file ended early");
    CHECK(e.location().line() == line);
    CHECK(std::string(e.location().file_name()).ends_with("error.cpp"));
  }
}

TEST_CASE(
    "expects: throws usage_error with the caller's source location if the condition is false") {
  CHECK_NOTHROW(expects(true, "unused message"));
  const auto location = concat("error.cpp:", __LINE__ + 2, ")");
  try {
    expects(false, "ring: the span is too short");
    FAIL("expects(false, ...) returned");
  } catch (const usage_error& e) {
    CHECK(std::string(e.what()).starts_with("ring: the span is too short ("));
    CHECK(std::string(e.what()).ends_with(location));
  }
}

TEST_CASE("error and usage_error: neither is a base of the other") {
  static_assert(!std::is_base_of_v<error, usage_error> && !std::is_base_of_v<usage_error, error>);
  static_assert(([] { expects(true, "usable in constant expressions"); }(), true));
  CHECK_THROWS_AS(expects(false, ""), std::logic_error);
}
