// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// TFRecord files and tar shards for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/images/crc32c.hpp>

namespace support {

using bytes = std::vector<std::uint8_t>;

inline bytes to_bytes(std::string_view text) { return {text.begin(), text.end()}; }
inline void append(bytes& out, const bytes& more) {
  out.insert(out.end(), more.begin(), more.end());
}

inline bytes varint(std::uint64_t value) {
  bytes out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
  out.push_back(static_cast<std::uint8_t>(value));
  return out;
}
/// A field of bytes.
inline bytes field(unsigned number, const bytes& value) {
  bytes out = varint(number << 3 | 2);
  append(out, varint(value.size()));
  append(out, value);
  return out;
}
inline bytes integer_field(unsigned number, std::uint64_t value) {
  bytes out = varint(number << 3);
  append(out, varint(value));
  return out;
}
/// An entry of the map of features, whose value is a list of the given kind.
inline bytes feature(std::string_view name, unsigned kind, const bytes& list) {
  bytes entry = field(1, to_bytes(name));
  append(entry, field(2, field(kind, list)));
  return field(1, entry);
}
inline bytes example(const bytes& image, std::int64_t label) {
  bytes features = feature("image/height", 3, field(1, varint(480)));
  append(features, feature("image/encoded", 1, field(1, image)));
  append(features, feature("image/class/text", 1, field(1, to_bytes("rose"))));
  append(features,
         feature("image/class/label", 3, field(1, varint(static_cast<std::uint64_t>(label)))));
  return field(1, features);
}

inline void append_number(bytes& out, std::uint64_t value, int size) {
  for (int k = 0; k < size; ++k) out.push_back(static_cast<std::uint8_t>(value >> (8 * k)));
}
inline bytes tf_record(const bytes& data) {
  using namespace cordee::detail::images;
  bytes out;
  append_number(out, data.size(), 8);
  append_number(out, masked_crc(crc32c(out)), 4);
  append(out, data);
  append_number(out, masked_crc(crc32c(data)), 4);
  return out;
}

}  // namespace support
