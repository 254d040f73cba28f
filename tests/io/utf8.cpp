// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <doctest/doctest.h>

#include <cordee/io/utf8.hpp>

TEST_CASE("utf8: shortest forms up to U+10FFFF, no surrogates, nothing cut") {
  const auto valid = [](std::string_view s) { return cordee::detail::io::is_utf8(s); };
  for (const char* text : {"", "cat", "caf\xc3\xa9", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80",
                           "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    CHECK_MESSAGE(valid(text), text);
  CHECK(valid({"a\0b", 3}));
  for (const char* text : {"caf\xe9", "\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x9f\xbf",
                           "\xed\xa0\x80", "\xe2\x82", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80"})
    CHECK_FALSE(valid(text));
}
