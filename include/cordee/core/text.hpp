// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sentences for people: text("rank ", 3, " waits") without streams, which cost compile time. Parts
// are erased to one small type before they are joined, so that a sentence costs a table, not a
// template.
#pragma once

#include <concepts>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// A word, a whole number or a number of a sentence.
struct part {
  enum { word, whole, natural, real } what;
  std::string_view letters{};
  long long integer = 0;
  double number = 0;

  // Out of line, so that a sentence is a row of calls and takes little time to compile.
  [[gnu::cold, gnu::noinline]] part(std::string_view s) : what(word), letters(s) {}
  [[gnu::cold, gnu::noinline]] part(const char* s) : part(std::string_view(s)) {}
  [[gnu::cold, gnu::noinline]] part(const std::string& s) : part(std::string_view(s)) {}
  part(const char& c) : part(std::string_view(&c, 1)) {}
  part(bool b) : part(b ? "yes" : "no") {}
  part(std::signed_integral auto i) : what(whole), integer(i) {}
  part(std::unsigned_integral auto i) : what(natural), integer(static_cast<long long>(i)) {}
  part(std::floating_point auto x) : what(real), number(static_cast<double>(x)) {}
};

[[gnu::cold, gnu::noinline]] inline std::string join(std::span<const part> parts) {
  std::string out;
  char digits[32];
  for (const part& p : parts) {
    if (p.what == part::word) {
      out.append(p.letters);
      continue;
    }
    if (p.what == part::whole)
      std::snprintf(digits, sizeof digits, "%lld", p.integer);
    else if (p.what == part::natural)
      std::snprintf(digits, sizeof digits, "%llu", static_cast<unsigned long long>(p.integer));
    else
      std::snprintf(digits, sizeof digits, "%.6g", p.number);
    out.append(digits);
  }
  return out;
}

[[gnu::cold, gnu::noinline]] inline std::string in_groups(std::string_view digits) {
  char out[32];  // 64 bits have at most 20 digits or a sign and 19, and six commas
  char* end = out;
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) *end++ = ',';
    *end++ = digits[i];
  }
  return {out, end};
}

}  // namespace detail

/// The parts one after another; numbers with six significant digits.
/// Cold, so that what leads to an error costs little to compile and no room among what runs. Its
/// parts are values, so that words of every length are one type: sentences of one form share a
/// function.
template <class... Parts>
[[gnu::cold]] std::string text(Parts... parts) {
  if constexpr (sizeof...(parts) == 0) {
    return {};
  } else {
    const detail::part all[] = {detail::part(parts)...};
    return detail::join({all, sizeof...(parts)});  // not of the array: a span type a length
  }
}

/// 1234567 as "1,234,567".
inline std::string grouped(std::integral auto number) { return detail::in_groups(text(number)); }

}  // namespace cordee::inline CORDEE_ABI
