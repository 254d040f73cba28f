// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers as text and back, equal in every locale: after setlocale(LC_ALL, "de_DE.UTF-8") printf
// writes 1,5 and strtod reads 1.5 as 1, and streams follow std::locale::global. The functions of
// <charconv> follow neither, so a file has the same bytes whatever the application has set.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// A number in decimal digits with a point, never a locale's comma or thousands separators:
///
///   std::printf("%8s %%\n", decimal::fixed(100 * m.accuracy(), 2).c_str());
struct decimal {
  /// As "%.*f" in locale C: 12.50.
  [[nodiscard]] static std::string fixed(double x, int digits) {
    return written(x, std::chars_format::fixed, digits);
  }
  /// As "%.*e" in locale C: 1.25e+01.
  [[nodiscard]] static std::string scientific(double x, int digits) {
    return written(x, std::chars_format::scientific, digits);
  }
  /// As "%.*g" in locale C: 12.5.
  [[nodiscard]] static std::string general(double x, int digits) {
    return written(x, std::chars_format::general, digits);
  }
  /// The fewest digits that round-trip: texts are equal exactly if the numbers are, except that the
  /// two zeros, and NaNs of different sign, differ.
  [[nodiscard, gnu::cold, gnu::noinline]] static std::string shortest(double x) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, x).ptr};
  }
  /// Adds a "+" to an unsigned number, for a difference.
  [[nodiscard, gnu::cold]] static std::string with_sign(std::string number) {
    return number.front() == '-' ? number : "+" + number;
  }
  /// Parses a number, if the whole text is one that T can hold; it may begin with "+".
  template <class T>
  [[nodiscard]] static std::optional<T> parse(std::string_view text) {
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
    T value{};
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc{} || end != text.data() + text.size()) return {};
    return value;
  }

 private:
  [[gnu::cold, gnu::noinline]] static std::string written(double x, std::chars_format format,
                                                          int digits) {
    char text[400];  // the largest double has 309 digits before the point
    const auto [end, status] = std::to_chars(text, text + sizeof text, x, format, digits);
    return {text, status == std::errc{} ? end : text};
  }
};

}  // namespace cordee::inline CORDEE_ABI
