// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Features of a tf.train.Example by name, read from its protocol buffer:
//
//   Example  { Features features = 1; }          Features { map<string, Feature> feature = 1; }
//   Feature  { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }      a list's values are 1
//
// A message is fields, each a key and a value: varint, 8 bytes, 4 bytes, or a length and bytes
// (protobuf.dev, "Encoding"). Fields of other numbers are passed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// The fields of one message. After a malformed field there are no more, and `is_valid` is false.
class protobuf_fields {
 public:
  explicit protobuf_fields(std::span<const std::uint8_t> message) : rest_(message) {}

  /// Goes to the next field; false at the end.
  bool next() {
    if (rest_.empty() || !valid_) return false;
    std::uint64_t key = 0, length = 0;
    valid_ = varint(key) && key >> 3 != 0;
    number_ = key >> 3;
    type_ = static_cast<int>(key & 7);
    bytes_ = {};
    if (!valid_) return false;
    if (type_ == 0)
      valid_ = varint(integer_);
    else if (type_ == 1 || type_ == 5)
      valid_ = take(type_ == 1 ? 8 : 4);
    else
      valid_ = type_ == 2 && varint(length) && take(length);
    return valid_;
  }
  [[nodiscard]] bool is_valid() const { return valid_; }
  /// Whether the field is the number `n` and a varint, or a length and bytes.
  [[nodiscard]] bool is_integer(std::uint64_t n) const { return number_ == n && type_ == 0; }
  [[nodiscard]] bool is_bytes(std::uint64_t n) const { return number_ == n && type_ == 2; }
  [[nodiscard]] std::uint64_t integer() const { return integer_; }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return bytes_; }
  [[nodiscard]] std::string_view string() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  /// Seven bits a byte, the lowest first; at most ten bytes. Also reads packed lists.
  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 70 && !rest_.empty(); shift += 7) {
      const std::uint8_t b = rest_[0];
      rest_ = rest_.subspan(1);
      value |= shift < 64 ? std::uint64_t{b & 0x7fu} << shift : 0;
      if (b < 0x80) return true;
    }
    return false;
  }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  bool take(std::uint64_t length) {
    if (length > rest_.size()) return false;
    bytes_ = rest_.first(static_cast<std::size_t>(length));
    rest_ = rest_.subspan(static_cast<std::size_t>(length));
    return true;
  }

  std::span<const std::uint8_t> rest_, bytes_;
  std::uint64_t number_ = 0, integer_ = 0;
  int type_ = 0;
  bool valid_ = true;
};

/// The bytes of one serialized Example.
class tf_example {
 public:
  explicit tf_example(std::span<const std::uint8_t> record) : record_(record) {}

  /// The first value of a feature of bytes; nothing if it has none or the record is malformed.
  [[nodiscard]] std::optional<std::span<const std::uint8_t>> bytes(std::string_view name) const {
    std::optional<std::span<const std::uint8_t>> value;
    protobuf_fields list(list_of(name, 1));
    while (list.next())
      if (list.is_bytes(1) && !value) value = list.bytes();
    return list.is_valid() ? value : std::nullopt;
  }

  /// The first value of a feature of integers, packed or not.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name) const {
    std::optional<std::int64_t> value;
    protobuf_fields list(list_of(name, 3));
    while (list.next()) {
      std::uint64_t number = list.integer();
      if (list.is_bytes(1) && !protobuf_fields(list.bytes()).varint(number)) return std::nullopt;
      if ((list.is_integer(1) || list.is_bytes(1)) && !value)
        value = static_cast<std::int64_t>(number);
    }
    return list.is_valid() ? value : std::nullopt;
  }

 private:
  /// The list of a feature, in the field `kind` of the Feature; empty if there is none.
  [[nodiscard]] std::span<const std::uint8_t> list_of(std::string_view name,
                                                      std::uint64_t kind) const {
    std::span<const std::uint8_t> found;
    protobuf_fields example(record_);
    while (example.next()) {
      if (!example.is_bytes(1)) continue;
      protobuf_fields features(example.bytes());
      while (features.next()) {
        if (!features.is_bytes(1)) continue;
        std::string_view key;
        std::span<const std::uint8_t> feature;
        protobuf_fields entry(features.bytes());
        while (entry.next()) {
          if (entry.is_bytes(1)) key = entry.string();
          if (entry.is_bytes(2)) feature = entry.bytes();
        }
        if (!entry.is_valid()) return {};
        if (key != name) continue;
        found = {};  // the last of two entries of a map counts
        protobuf_fields value(feature);
        while (value.next())
          if (value.is_bytes(kind)) found = value.bytes();
        if (!value.is_valid()) return {};
      }
      if (!features.is_valid()) return {};
    }
    return example.is_valid() ? found : std::span<const std::uint8_t>{};
  }

  std::span<const std::uint8_t> record_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::images
