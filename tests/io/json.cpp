// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <doctest/doctest.h>

#include <cordee/io/json.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

namespace {

std::string string_of(const std::string& source) {
  detail::io::json_reader json(source, "file", 0);
  const std::string s = json.string();
  json.expect_end();
  return s;
}
std::uint64_t number_of(const std::string& source) {
  detail::io::json_reader json(source, "file", 0);
  const std::uint64_t n = json.number();
  json.expect_end();
  return n;
}

}  // namespace

TEST_CASE("json: a quoted string reads back: every byte, and characters beyond ASCII") {
  for (int c = 0; c < 128; ++c) {
    const std::string s(3, static_cast<char>(c));
    CHECK(string_of(detail::io::json_quoted(s)) == s);
  }
  for (const std::string s : {"", "Cord\u00e9e", "\u6f22\u5b57", "\U0001F9D7"})
    CHECK(string_of(detail::io::json_quoted(s)) == s);
}

TEST_CASE("json: escapes of RFC 8259") {
  CHECK(string_of(R"("\"\\/\b\f\n\r\t")") == "\"\\/\b\f\n\r\t");
  CHECK(string_of(R"("\u0041\u00e9\u6F22")") == "A\u00e9\u6f22");
  CHECK(string_of(R"("\ud83e\uddd7")") == "\U0001F9D7");
}

TEST_CASE("json: an invalid string is an error that names file and offset") {
  for (const std::string bad : {"",
                                "x",
                                "\"",
                                "\"abc",
                                "\"\\\"",
                                "\"\\x\"",
                                "\"\\u12\"",
                                "\"\\u12g4\"",
                                "\"\\ud83e\"",
                                "\"\\ud83ex\"",
                                "\"\\ud83e\\u0041\"",
                                "\"\\uddd7\"",
                                "\"\n\"",
                                "\"\xff\"",
                                "\"\xc0\x80\"",
                                "\"\xed\xa0\x80\"",
                                "\"\xf4\x90\x80\x80\"",
                                "\"\xe2\x82\"",
                                "\"\x80\"",
                                "\"a\" b"}) {
    CAPTURE(bad);
    CHECK(contains_all(message_of<error>([&] { string_of(bad); }), {"file: ", "at offset"}));
  }
}

TEST_CASE("json: non-negative integers up to the largest, and no other numbers") {
  CHECK(number_of("0") == 0);
  CHECK(number_of(" 1281167 ") == 1281167);
  CHECK(number_of("9223372036854775807") == 9223372036854775807u);
  for (const std::string bad : {"", "-1", "01", "1.5", "1e3", "9223372036854775808",
                                "99999999999999999999999", "x", "+1", "NaN"}) {
    CAPTURE(bad);
    CHECK(contains_all(message_of<error>([&] { number_of(bad); }), {"file: ", "at offset"}));
  }
}

TEST_CASE("json: integers of either sign, and no other numbers") {
  const auto integer_of = [](const std::string& source) {
    detail::io::json_reader json(source, "file", 0);
    const std::int64_t n = json.integer();
    json.expect_end();
    return n;
  };
  CHECK(integer_of("0") == 0);
  CHECK(integer_of(" -12") == -12);
  CHECK(integer_of("-9223372036854775807") == -9223372036854775807);
  for (const std::string bad : {"", "-", "- 1", "--1", "-01", "-1.5", "-9223372036854775808"}) {
    CAPTURE(bad);
    CHECK(contains_all(message_of<error>([&] { integer_of(bad); }), {"file: ", "at offset"}));
  }
}

TEST_CASE("json: objects and arrays with any white space") {
  detail::io::json_reader json(" { \"a\" : [ 1 , 2 ] ,\n\t\"b\":[],\"c\":{}} ", "file", 0);
  std::map<std::string, std::size_t> lengths;
  json.object([&](const std::string& key) {
    std::size_t n = 0;
    if (key == "c")
      json.object([&](const std::string&) { ++n; });
    else
      json.array([&] {
        json.number();
        ++n;
      });
    lengths[key] = n;
  });
  json.expect_end();
  CHECK(lengths == std::map<std::string, std::size_t>{{"a", 2}, {"b", 0}, {"c", 0}});
}

TEST_CASE("json: offsets are those of the file, not of the text") {
  detail::io::json_reader json("xyz", "file", 8);
  CHECK(contains_all(message_of<error>([&] { json.expect('{'); }), {"expected '{' at offset 8"}));
}
