// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The subset of JSON (RFC 8259) that headers of tensor files use: objects of known depth, strings,
// and integers. Without recursion, so that no input exhausts the stack.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <cordee/core/error.hpp>
#include <cordee/io/utf8.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

/// Reads the expected tokens one after another; throws error with the path and the offset in the
/// file where the text differs. `base` is the offset of the text in the file.
class json_reader {
 public:
  json_reader(std::string_view source, std::string path, std::size_t base)
      : source_(source), path_(std::move(path)), base_(base) {}

  [[nodiscard]] std::size_t offset() const { return base_ + at_; }
  [[noreturn]] void refuse(std::string_view reason) const {
    throw error(concat(path_, ": ", reason, " at offset ", offset(),
                       "; the file is damaged or not a tensor file; write or download it again"));
  }

  /// Consumes the next token if it is c; returns whether it was.
  bool take(char c) {
    skip_space();
    if (at_ == source_.size() || source_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// The same of the literal null.
  bool take_null() {
    skip_space();
    if (source_.substr(at_, 4) != "null") return false;
    at_ += 4;
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(concat("expected '", c, "'"));
  }
  void expect_end() {
    skip_space();
    if (at_ != source_.size()) refuse("text after the end of the header");
  }

  std::uint64_t number() {
    skip_space();
    if (at_ == source_.size() || !is_digit(source_[at_])) refuse("expected a non-negative integer");
    if (source_[at_] == '0' && at_ + 1 < source_.size() && is_digit(source_[at_ + 1]))
      refuse("a number begins with 0");
    std::uint64_t value = 0;
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    for (; at_ < source_.size() && is_digit(source_[at_]); ++at_) {
      const auto digit = static_cast<std::uint64_t>(source_[at_] - '0');
      if (value > (most - digit) / 10) refuse("a number is too large");
      value = value * 10 + digit;
    }
    return value;
  }

  std::int64_t integer() {
    const bool negative = take('-');
    if (negative && at_ < source_.size() && !is_digit(source_[at_])) refuse("expected a digit");
    const auto magnitude = static_cast<std::int64_t>(number());
    return negative ? -magnitude : magnitude;
  }

  std::string string() {
    expect('"');
    std::string out;
    for (;;) {
      const char c = next();
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) refuse("a control character in a string");
      if (c == '\\')
        escape(out);
      else
        out += c;
    }
    if (!is_utf8(out)) refuse("a string is not UTF-8");
    return out;
  }

  /// Calls member(key) for each member of an object; `member` must read the value.
  template <class F>
  void object(const F& member) {
    expect('{');
    if (take('}')) return;
    do {
      std::string key = string();
      expect(':');
      member(std::move(key));
    } while (take(','));
    expect('}');
  }

  /// Calls element() for each element of an array; `element` must read the value.
  template <class F>
  void array(const F& element) {
    expect('[');
    if (take(']')) return;
    do element();
    while (take(','));
    expect(']');
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  void skip_space() {
    while (at_ < source_.size() && (source_[at_] == ' ' || source_[at_] == '\n' ||
                                    source_[at_] == '\t' || source_[at_] == '\r'))
      ++at_;
  }
  char next() {
    if (at_ == source_.size()) refuse("a string does not end");
    return source_[at_++];
  }

  void escape(std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt", characters = "\"\\/\b\f\n\r\t";
    const char c = next();
    if (const auto index = letters.find(c); index != letters.npos) {
      out += characters[index];
    } else if (c == 'u') {
      std::uint32_t code = code_unit();
      if (code >= 0xdc00 && code < 0xe000) refuse("half of a surrogate pair");
      if (code >= 0xd800 && code < 0xdc00) {
        if (next() != '\\' || next() != 'u') refuse("half of a surrogate pair");
        const std::uint32_t low = code_unit();
        if (low < 0xdc00 || low >= 0xe000) refuse("half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      }
      append_utf8(out, code);
    } else {
      refuse("an unknown escape in a string");
    }
  }
  std::uint32_t code_unit() {
    constexpr std::string_view digits = "0123456789abcdef", capitals = "0123456789ABCDEF";
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = next();
      auto digit = digits.find(c);
      if (digit == digits.npos) digit = capitals.find(c);
      if (digit == capitals.npos) refuse("expected four hexadecimal digits");
      value = value * 16 + static_cast<std::uint32_t>(digit);
    }
    return value;
  }
  static void append_utf8(std::string& out, std::uint32_t code) {
    const auto tail = [&](unsigned shift) {
      out += static_cast<char>(0x80 | ((code >> shift) & 0x3f));
    };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | (code >> 12));
      tail(6);
      tail(0);
    } else {
      out += static_cast<char>(0xf0 | (code >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }

  std::string_view source_;
  std::string path_;
  std::size_t base_, at_ = 0;
};

/// A JSON string literal, with quotes.
inline std::string json_quoted(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view digits = "0123456789abcdef";
      out += concat("\\u00", c < 0x10 ? '0' : '1', digits[static_cast<std::size_t>(c) & 15]);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace cordee::inline CORDEE_ABI::detail::io
