// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>

#include "tests/support/foreign_locale.hpp"

using namespace cordee;

namespace {

std::string printed(const char* format, int digits, double x) {
  char text[400];
  std::snprintf(text, sizeof text, format, digits, x);
  return text;
}

}  // namespace

TEST_CASE("decimal: each form has printf's characters in locale C") {
  for (const double x : {0.0, -0.0, 0.5, 1.5, 2.5, -1.0 / 3, 1e-7, 123456.5, 1e15, 1e22, 5e-324,
                         std::numeric_limits<double>::max(), static_cast<double>(INFINITY),
                         static_cast<double>(NAN)})
    for (const int digits : {0, 1, 2, 6, 9, 15}) {
      CAPTURE(x);
      CAPTURE(digits);
      CHECK(decimal::fixed(x, digits) == printed("%.*f", digits, x));
      CHECK(decimal::scientific(x, digits) == printed("%.*e", digits, x));
      CHECK(decimal::general(x, digits) == printed("%.*g", digits, x));
    }
  CHECK(decimal::with_sign(decimal::fixed(1.25, 1)) == "+1.2");
  CHECK(decimal::with_sign(decimal::fixed(-1.25, 1)) == "-1.2");
}

TEST_CASE("decimal: the shortest form gives the number back and differs from its neighbor's") {
  for (const double x : {0.1, 0.9, 0.9 + 3e-7, 1.0 / 3, 5e-324, -1e300}) {
    const std::string text = decimal::shortest(x);
    CHECK(decimal::parse<double>(text) == x);
    CHECK(text != decimal::shortest(std::nextafter(x, 2.0)));
  }
  CHECK(decimal::shortest(0.9) == "0.9");
}

TEST_CASE("decimal: a text is a number as a whole, or none") {
  CHECK(decimal::parse<double>("+1.5e3") == 1500);
  CHECK(decimal::parse<int>("-7") == -7);
  for (const char* text : {"", "+", "+-1", "1,5", "1.5 ", " 1", "1e999", "0x10", "one"})
    CHECK_MESSAGE(!decimal::parse<double>(text), text);
  CHECK(!decimal::parse<int>("2147483648"));
}

TEST_CASE("decimal, concat: an application's locale changes no character") {
  const support::foreign_locale german;
  CHECK(concat(1.5, " ", 1234567, " ", 0.25f) == "1.5 1234567 0.25");
  CHECK(decimal::fixed(1234.5, 2) == "1234.50");
  CHECK(decimal::parse<double>("1.5") == 1.5);
  if (!german.of_c())
    MESSAGE("skipped for setlocale: de_DE.UTF-8 is not installed");
  else
    CHECK(printed("%.*f", 1, 1.5) == "1,5");  // the locale is there
}
