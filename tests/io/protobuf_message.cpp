// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/io/protobuf_message.hpp>

using cordee::detail::io::protobuf_message;

TEST_CASE("protobuf_message: the examples of protobuf.dev") {
  CHECK(protobuf_message{}.integer(1, 150).encoded() == "\x08\x96\x01");
  CHECK(
      protobuf_message{}.integer(1, 150).message(3, protobuf_message{}.integer(1, 150)).encoded() ==
      "\x08\x96\x01\x1a\x03\x08\x96\x01");
  CHECK(protobuf_message{}.bytes(2, "testing").encoded() == "\x12\x07testing");
  CHECK(protobuf_message{}.integer(1, -2).encoded() ==
        "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST_CASE("protobuf_message: bounds of varints, fields above 15, zeros, floats") {
  CHECK(protobuf_message{}.integer(1, 127).encoded() == "\x08\x7f");
  CHECK(protobuf_message{}.integer(1, 128).encoded() == std::string("\x08\x80\x01"));
  CHECK(protobuf_message{}.integer(16, 0).encoded() == std::string("\x80\x01\0", 3));
  CHECK(protobuf_message{}.number(2, 1.0f).encoded() == std::string("\x15\0\0\x80\x3f", 5));
  CHECK(protobuf_message{}.bytes(1, std::string(300, 'x')).encoded() ==
        "\x0a\xac\x02" + std::string(300, 'x'));
}
