// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/core/error.hpp>

using namespace cordee;

TEST_CASE("an error says its sentence and knows the place that threw it") {
  const std::uint_least32_t here = __LINE__ + 2;
  try {
    throw error("the file ended early");
  } catch (const error& e) {
    CHECK(std::string(e.what()) == "the file ended early");
    CHECK(e.where().line() == here);
    CHECK(std::string(e.where().file_name()).ends_with("error.cpp"));
  }
}

TEST_CASE("expects: silent while it holds, otherwise a misuse with the caller's place") {
  CHECK_NOTHROW(expects(true, "never said"));
  const auto here = text("error.cpp:", __LINE__ + 2, ")");
  try {
    expects(false, "ring: the span is too short");
    FAIL("expects(false, ...) returned");
  } catch (const misuse& e) {
    CHECK(std::string(e.what()).starts_with("ring: the span is too short ("));
    CHECK(std::string(e.what()).ends_with(here));
  }
}

TEST_CASE("a caller's mistake is not an error of the world, nor the other way round") {
  static_assert(!std::is_base_of_v<error, misuse> && !std::is_base_of_v<misuse, error>);
  static_assert(([] { expects(true, "usable in constant expressions"); }(), true));
  CHECK_THROWS_AS(expects(false, ""), std::logic_error);
}
