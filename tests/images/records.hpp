// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// TFRecord files and tar shards for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/io/crc32c.hpp>

#include "tests/support/folder.hpp"

namespace support {

inline file_bytes to_bytes(std::string_view text) { return {text.begin(), text.end()}; }
inline void append(file_bytes& out, const file_bytes& more) {
  out.insert(out.end(), more.begin(), more.end());
}

inline file_bytes varint(std::uint64_t value) {
  file_bytes out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
  out.push_back(static_cast<std::uint8_t>(value));
  return out;
}
/// A field of bytes.
inline file_bytes field(unsigned number, const file_bytes& value) {
  file_bytes out = varint(number << 3 | 2);
  append(out, varint(value.size()));
  append(out, value);
  return out;
}
inline file_bytes integer_field(unsigned number, std::uint64_t value) {
  file_bytes out = varint(number << 3);
  append(out, varint(value));
  return out;
}
/// An entry of the map of features, whose value is a list of the given kind.
inline file_bytes feature(std::string_view name, unsigned kind, const file_bytes& list) {
  file_bytes entry = field(1, to_bytes(name));
  append(entry, field(2, field(kind, list)));
  return field(1, entry);
}
inline file_bytes example(const file_bytes& image, std::int64_t label) {
  file_bytes features = feature("image/height", 3, field(1, varint(480)));
  append(features, feature("image/encoded", 1, field(1, image)));
  append(features, feature("image/class/text", 1, field(1, to_bytes("rose"))));
  append(features,
         feature("image/class/label", 3, field(1, varint(static_cast<std::uint64_t>(label)))));
  return field(1, features);
}

inline void append_number(file_bytes& out, std::uint64_t value, int size) {
  for (int k = 0; k < size; ++k) out.push_back(static_cast<std::uint8_t>(value >> (8 * k)));
}
inline file_bytes tf_record(const file_bytes& data) {
  using namespace cordee::detail::io;
  file_bytes out;
  append_number(out, data.size(), 8);
  append_number(out, masked_crc(crc32c(out)), 4);
  append(out, data);
  append_number(out, masked_crc(crc32c(data)), 4);
  return out;
}

}  // namespace support
