// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Messages without streams, which cost compile time: concat("rank ", 3, " waits"). Parts are erased
// to one small type before they are joined, so a message costs the compiler an array, not a
// template instantiation.
#pragma once

#include <charconv>
#include <concepts>
#include <span>
#include <string>
#include <string_view>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::core {

/// A string or a number of a message.
struct part {
  enum { string, signed_integer, unsigned_integer, real } kind;
  union {  // of the kind: a message's array is written part by part
    std::string_view characters;
    long long integer;
    double number;
  };

  part() {}  // unspecified
  // Out of line, so that a message is a sequence of calls and takes little time to compile.
  [[gnu::cold, gnu::noinline]] part(std::string_view s) : kind(string), characters(s) {}
  [[gnu::cold, gnu::noinline]] part(const char* s) : part(std::string_view(s)) {}
  [[gnu::cold, gnu::noinline]] part(const std::string& s) : part(std::string_view(s)) {}
  part(const char& c) : part(std::string_view(&c, 1)) {}
  part(const void*) = delete;  // it would be a bool
  part(bool b) : part(b ? "yes" : "no") {}
  part(int i) : kind(signed_integer), integer(i) {}
  part(long i) : kind(signed_integer), integer(i) {}
  part(long long i) : kind(signed_integer), integer(i) {}
  part(unsigned i) : kind(unsigned_integer), integer(i) {}
  part(unsigned long i) : kind(unsigned_integer), integer(static_cast<long long>(i)) {}
  part(unsigned long long i) : kind(unsigned_integer), integer(static_cast<long long>(i)) {}
  part(float x) : kind(real), number(static_cast<double>(x)) {}
  part(double x) : kind(real), number(x) {}
};

inline constinit thread_local bool writes_exact_numbers = false;

/// While it lives, concat writes this thread's floating-point numbers with as many digits as give
/// them back: descriptions are equal where the numbers in them are. Nothing is exchanged meanwhile:
/// simulated ranks share a thread.
class exact_numbers {
 public:
  exact_numbers(bool all_digits = true) : before_(writes_exact_numbers) {
    writes_exact_numbers = all_digits;
  }
  exact_numbers(const exact_numbers&) = delete;
  exact_numbers& operator=(const exact_numbers&) = delete;
  ~exact_numbers() { writes_exact_numbers = before_; }

 private:
  bool before_;
};

/// The number's digits, in `digits`.
[[gnu::cold, gnu::noinline]] inline std::string_view write_number(const part& p,
                                                                  std::span<char, 32> digits) {
  char *const first = digits.data(), *const last = first + digits.size();
  if (p.kind == part::real) {
    char* end = std::to_chars(first, last, p.number, std::chars_format::general, 6).ptr;
    double read = 0;
    if (writes_exact_numbers) std::from_chars(first, end, read);
    // Bits are compared, since programs on integers alone have this code.
    if (writes_exact_numbers && __builtin_memcmp(&read, &p.number, sizeof read) != 0)
      end = std::to_chars(first, last, p.number).ptr;
    return {first, end};
  }
  const bool is_negative = p.kind == part::signed_integer && p.integer < 0;
  auto rest = static_cast<unsigned long long>(p.integer);
  if (is_negative) rest = 0 - rest;
  char* begin = last;  // by hand: std::to_chars of integers is compiled into the program
  do *--begin = static_cast<char>('0' + rest % 10);
  while ((rest /= 10) != 0);
  if (is_negative) *--begin = '-';
  return {begin, last};
}

[[gnu::cold, gnu::noinline]] inline std::string join(const part* parts, std::size_t count) {
  std::string out;
  char digits[32];
  for (const part* end = parts + count; parts != end; ++parts)
    // the only append, for it is compiled into the program
    out.append(parts->kind == part::string ? parts->characters : write_number(*parts, digits));
  return out;
}

/// A message whose parts are not known at once. What it refers to outlives it.
class message {
 public:
  static constexpr std::size_t most_parts = 48;

  [[gnu::cold, gnu::noinline]] void add(const part& p) {
    if (size_ < most_parts) parts_[size_++] = p;
  }
  [[gnu::cold, gnu::noinline]] void add(const char* s) { add(part(s)); }
  [[nodiscard]] std::string text() const { return join(parts_, size_); }

 private:
  part parts_[most_parts];
  std::size_t size_ = 0;
};

[[gnu::cold, gnu::noinline]] inline std::string group_digits(std::string_view digits) {
  char out[32];  // 64 bits have at most 20 digits or a sign and 19, and six commas
  char* end = out;
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) *end++ = ',';
    *end++ = digits[i];
  }
  return {out, end};
}

}  // namespace detail::core

// Cold, so that error paths cost little to compile and lie apart from hot code. Parameters are
// values, so that string literals of every length are one type and messages of one form share an
// instantiation.
/// Concatenates the parts, the same in every locale; floating-point numbers have six significant
/// digits (core/decimal.hpp has other forms).
template <class... Parts>
[[gnu::cold]] std::string concat(Parts... parts) {
  if constexpr (sizeof...(parts) == 0) {
    return {};
  } else {
    const detail::core::part all[] = {detail::core::part(parts)...};
    return detail::core::join(all, sizeof...(parts));
  }
}

namespace detail::core {

/// One line for the description of a run, of any optimizer, schedule or reducer.
template <class T>
std::string describe_policy(const T& policy) {
  if constexpr (requires { policy.describe(); })
    return policy.describe();
  else
    return "a type without describe()";
}

/// 1234567 as "1,234,567".
inline std::string grouped(std::integral auto number) { return group_digits(concat(number)); }

}  // namespace detail::core

}  // namespace cordee::inline CORDEE_ABI
