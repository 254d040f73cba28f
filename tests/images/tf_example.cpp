// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/images/tf_example.hpp>

#include "tests/images/records.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using namespace support;

namespace {

std::string text(const std::optional<std::span<const std::uint8_t>>& value) {
  return value ? std::string(value->begin(), value->end()) : "nothing";
}

}  // namespace

TEST_CASE("tf_example: features of bytes and integers are found by their names") {
  const file_bytes record = example(to_bytes("a picture"), 417);
  const tf_example e(record);
  CHECK(text(e.bytes("image/encoded")) == "a picture");
  CHECK(e.integer("image/class/label") == 417);
  CHECK(e.integer("image/height") == 480);
  CHECK(text(e.bytes("image")) == "nothing");
  CHECK_FALSE(e.integer("image/encoded").has_value());
  CHECK(text(e.bytes("image/class/label")) == "nothing");
}

TEST_CASE("tf_example: integers are packed or not, negative or not, and the first counts") {
  const auto label = [](const file_bytes& list) {
    const file_bytes record = field(1, feature("label", 3, list));
    return tf_example(record).integer("label");
  };
  CHECK(label(integer_field(1, 5)) == 5);
  CHECK(label(field(1, varint(~std::uint64_t{0}))) == -1);
  file_bytes two = varint(300);
  append(two, varint(7));
  CHECK(label(field(1, two)) == 300);
  two = integer_field(1, 8);
  append(two, integer_field(1, 9));
  CHECK(label(two) == 8);
  CHECK_FALSE(label({}).has_value());
  CHECK_FALSE(label(field(1, {})).has_value());
  CHECK_FALSE(label(field(1, file_bytes(11, 0xff))).has_value());
}

TEST_CASE("tf_example: unknown fields are passed over, and the last entry of a name counts") {
  file_bytes features = integer_field(9, 1);
  append(features, feature("label", 3, integer_field(1, 5)));
  append(features, feature("label", 3, integer_field(1, 6)));
  features.insert(features.end(), {0x7d, 1, 2, 3, 4, 0x79, 1, 2, 3, 4, 5, 6, 7, 8});  // 15: fixed
  file_bytes record = field(2, to_bytes("another message"));
  append(record, field(1, features));
  CHECK(tf_example(record).integer("label") == 6);
}

TEST_CASE(
    "tf_example: a record that is cut anywhere has no feature after the cut, and none is wrong") {
  const file_bytes record = example(to_bytes("a picture"), 417);
  for (std::size_t n = 0; n < record.size(); ++n) {
    const tf_example e{std::span(record).first(n)};
    CHECK(text(e.bytes("image/encoded")) == "nothing");
    CHECK_FALSE(e.integer("image/class/label").has_value());
  }
}
