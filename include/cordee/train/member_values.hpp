// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The options of a policy as text, exact to the bit, so that ranks can compare them: the members of
// an aggregate in their order, "{0.9, 0, 0.0001}", found by structured bindings.
//
// Left out: what is no option or has no value to compare, which are communicators, pointers,
// functions, and classes with private members (a lambda is one). An aggregate with a base, with an
// array of C or with more than twelve members has no text; std::array and std::vector have one.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>

#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Appends a number with as many digits as give it back.
[[gnu::cold, gnu::noinline]] inline void append_number(std::string& text, double x) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.15g", x);
  if (std::strtod(digits, nullptr) != x) std::snprintf(digits, sizeof digits, "%.17g", x);
  text += digits;
}
[[gnu::cold, gnu::noinline]] inline void append_number(std::string& text, long long x) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%lld", x);
  text += digits;
}

/// Initializes any member of T, but is no T itself.
template <class T>
struct any_member {
  template <class U>
    requires(!std::is_same_v<U, T>)
  operator U() const;
};
template <class T>
struct class_member {
  template <class U>
    requires(!std::is_same_v<U, T> && std::is_class_v<U>)
  operator U() const;
};
template <class T>
struct base_member {
  template <class U>
    requires(!std::is_same_v<U, T> && std::is_base_of_v<U, T>)
  operator U() const;
};

/// How T may be initialized, with any members before and after one in question.
template <class T, class Before, class After>
struct initialization;
template <class T, std::size_t... B, std::size_t... A>
struct initialization<T, std::index_sequence<B...>, std::index_sequence<A...>> {
  template <std::size_t>
  using any = any_member<T>;
  static constexpr bool by_any = requires { T{any<B>{}..., any<A>{}...}; };
  static constexpr bool by_base = requires { T{any<B>{}..., base_member<T>{}, any<A>{}...}; };
  static constexpr bool by_class = requires { T{any<B>{}..., class_member<T>{}, any<A>{}...}; };
  static constexpr bool by_list = requires { T{any<B>{}..., {any<0>{}}, any<A>{}...}; };
  static constexpr bool by_classes = requires {
    T{any<B>{}..., {class_member<T>{}, class_member<T>{}}, any<A>{}...};
  };
};
template <class T, std::size_t Before, std::size_t After>
using initialization_of =
    initialization<T, std::make_index_sequence<Before>, std::make_index_sequence<After>>;

inline constexpr std::size_t most_members = 12;

/// The numbers of initializers that T takes; those of an array count one by one. More than
/// most_members where T takes more.
template <class T, std::size_t N = most_members + 1>
consteval std::size_t count_members() {
  if constexpr (N == 0 || initialization_of<T, N, 0>::by_any)
    return N;
  else
    return count_members<T, N - 1>();
}
/// Whether a list of two classes initializes member K where fewer than Last follow: an array.
template <class T, std::size_t K, std::size_t Last>
consteval bool is_array_of_classes() {
  if constexpr (Last == 0)
    return false;
  else
    return initialization_of<T, K, Last - 1>::by_classes || is_array_of_classes<T, K, Last - 1>();
}
/// Whether member K of N is an array: it takes a list of one in place of all its elements.
template <class T, std::size_t K, std::size_t N>
consteval bool is_array() {
  if constexpr (!initialization_of<T, K, N - K - 1>::by_class)
    return !initialization_of<T, K, N - K - 1>::by_list;
  else if constexpr (initialization_of<T, K, N - K - 1>::by_classes)
    return false;
  else
    return is_array_of_classes<T, K, N - K - 1>();
}
template <class T, std::size_t... K>
consteval bool has_plain_members(std::index_sequence<K...>) {
  constexpr std::size_t n = sizeof...(K);
  if constexpr (n == 0 || n > most_members)
    return false;
  else if constexpr (initialization_of<T, 0, n - 1>::by_base)
    return false;
  else
    return !(is_array<T, K, n>() || ...);
}

template <class T>
concept Decomposable = std::is_class_v<T> && std::is_aggregate_v<T> && !std::is_empty_v<T> &&
                       has_plain_members<T>(std::make_index_sequence<count_members<T>()>{});

template <class T>
void append_values(std::string& text, const T& x);

/// "{a, b, c}"
template <class... Members>
void append_list(std::string& text, const Members&... members) {
  text += '{';
  (append_values(text, members), ...);
  text += '}';
}

template <class T>
void append_members(std::string& text, const T& x) {
  constexpr std::size_t n = count_members<T>();
  // clang-format off
  if constexpr (n == 1) { const auto& [a] = x; append_list(text, a); }
  if constexpr (n == 2) { const auto& [a, b] = x; append_list(text, a, b); }
  if constexpr (n == 3) { const auto& [a, b, c] = x; append_list(text, a, b, c); }
  if constexpr (n == 4) { const auto& [a, b, c, d] = x; append_list(text, a, b, c, d); }
  if constexpr (n == 5) { const auto& [a, b, c, d, e] = x; append_list(text, a, b, c, d, e); }
  if constexpr (n == 6) { const auto& [a, b, c, d, e, f] = x; append_list(text, a, b, c, d, e, f); }
  if constexpr (n == 7) {
    const auto& [a, b, c, d, e, f, g] = x;
    append_list(text, a, b, c, d, e, f, g);
  }
  if constexpr (n == 8) {
    const auto& [a, b, c, d, e, f, g, h] = x;
    append_list(text, a, b, c, d, e, f, g, h);
  }
  if constexpr (n == 9) {
    const auto& [a, b, c, d, e, f, g, h, i] = x;
    append_list(text, a, b, c, d, e, f, g, h, i);
  }
  if constexpr (n == 10) {
    const auto& [a, b, c, d, e, f, g, h, i, j] = x;
    append_list(text, a, b, c, d, e, f, g, h, i, j);
  }
  if constexpr (n == 11) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = x;
    append_list(text, a, b, c, d, e, f, g, h, i, j, k);
  }
  if constexpr (n == 12) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = x;
    append_list(text, a, b, c, d, e, f, g, h, i, j, k, l);
  }
  // clang-format on
}

template <class T>
concept Listed = requires(const T& x) { x.begin() != x.end(); };

/// Appends the values of x, if it has any, after a comma where others came before.
template <class T>
void append_values(std::string& text, const T& x) {
  constexpr bool communicates = requires { x.rank() == x.size(); };
  constexpr bool is_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
  if constexpr (communicates ||
                !(is_number || std::is_same_v<T, kinds> || Listed<T> || Decomposable<T>)) {
    return;
  } else {
    if (!text.empty() && text.back() != '{') text += ", ";
    if constexpr (std::is_floating_point_v<T>) {
      append_number(text, static_cast<double>(x));
    } else if constexpr (is_number) {
      append_number(text, static_cast<long long>(x));
    } else if constexpr (std::is_same_v<T, kinds>) {
      append_number(text, static_cast<long long>(x.bits));
    } else if constexpr (Listed<T>) {
      text += '{';
      for (const auto& element : x) append_values(text, element);
      text += '}';
    } else {
      append_members(text, x);
    }
  }
}

/// The values of a policy.
template <class T>
[[gnu::cold]] std::string member_values(const T& policy) {
  std::string text;
  append_values(text, policy);
  return text;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
