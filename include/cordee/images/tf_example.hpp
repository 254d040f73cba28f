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

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// The fields of one message. After a malformed field there are no more, and `is_valid` is false.
/// `Bytes` is a span of bytes, or as file_range (file_range.hpp) has the members of one.
template <class Bytes = std::span<const std::uint8_t>>
class protobuf_fields {
 public:
  explicit protobuf_fields(Bytes message) : rest_(message) {}

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
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  /// Whether the field's bytes are those of `text`.
  [[nodiscard]] bool equals(std::string_view text) const {
    if (bytes_.size() != text.size()) return false;
    for (std::size_t k = 0; k < text.size(); ++k)
      if (bytes_[k] != static_cast<std::uint8_t>(text[k])) return false;
    return true;
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

  Bytes rest_, bytes_{};
  std::uint64_t number_ = 0, integer_ = 0;
  int type_ = 0;
  bool valid_ = true;
};

/// The bytes of one serialized Example.
template <class Bytes = std::span<const std::uint8_t>>
class tf_example {
 public:
  explicit tf_example(Bytes record) : record_(record) {}

  /// The first value of a feature of bytes; nothing if it has none or the record is malformed.
  [[nodiscard]] std::optional<Bytes> bytes(std::string_view name) const {
    std::optional<Bytes> value;
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
  [[nodiscard]] Bytes list_of(std::string_view name, std::uint64_t kind) const {
    Bytes found{};
    protobuf_fields example(record_);
    while (example.next()) {
      if (!example.is_bytes(1)) continue;
      protobuf_fields features(example.bytes());
      while (features.next()) {
        if (!features.is_bytes(1)) continue;
        bool is_named = name.empty();  // without a key it has the empty one
        Bytes feature{};
        protobuf_fields entry(features.bytes());
        while (entry.next()) {
          if (entry.is_bytes(1)) is_named = entry.equals(name);
          if (entry.is_bytes(2)) feature = entry.bytes();
        }
        if (!entry.is_valid()) return {};
        if (!is_named) continue;
        found = {};  // the last of two entries of a map counts
        protobuf_fields value(feature);
        while (value.next())
          if (value.is_bytes(kind)) found = value.bytes();
        if (!value.is_valid()) return {};
      }
      if (!features.is_valid()) return {};
    }
    return example.is_valid() ? found : Bytes{};
  }

  Bytes record_;
};
template <class Bytes>
  requires std::convertible_to<const Bytes&, std::span<const std::uint8_t>>
tf_example(const Bytes&) -> tf_example<>;

}  // namespace cordee::inline CORDEE_ABI::detail::images
