// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Writes a message in the wire format of protocol buffers (protobuf.dev, "Encoding").
//
//   field     key, value            key: the varint of 8 number + type
//   type 0    varint                seven bits a byte, the lowest first
//   type 2    length, bytes         strings, bytes, messages
//   type 5    four bytes            float, little-endian
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

/// A message under construction; fields are written in the order of the calls.
class protobuf_message {
 public:
  /// A field of type int32, int64, uint64 or enum; a negative number takes ten bytes.
  protobuf_message& integer(int field, std::int64_t x) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(x));
    return *this;
  }
  protobuf_message& number(int field, float x) {
    static_assert(std::endian::native == std::endian::little);
    key(field, 5);
    bytes_.append(reinterpret_cast<const char*>(&x), sizeof x);
    return *this;
  }
  protobuf_message& bytes(int field, std::string_view x) {
    key(field, 2);
    varint(x.size());
    bytes_ += x;
    return *this;
  }
  protobuf_message& message(int field, const protobuf_message& x) { return bytes(field, x.bytes_); }

  [[nodiscard]] const std::string& encoded() const { return bytes_; }

 private:
  void key(int field, unsigned type) { varint(static_cast<unsigned>(field) << 3 | type); }
  void varint(std::uint64_t x) {
    for (; x >= 0x80; x >>= 7) bytes_ += static_cast<char>(x | 0x80);
    bytes_ += static_cast<char>(x);
  }

  std::string bytes_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::io
